//===- Pipelines.cpp - named pipelines from scans to nvvm -----------------===//
#include "lowering/driver/Pipelines.h"
#include "lowering/Passes.h"
#include "lowering/select/TileLayoutPipeline.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/CpuTarget.h"
#include "lowering/target/Target.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

using namespace mlir;

/// Kernels are long, and have no blocks to merge: looking for those took most of a
/// compilation.
static GreedyRewriteConfig foldsOnly() {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  return config;
}

/// What stands between the scans of a derivative, before these have schedules.
static void addGatheringPasses(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(ejk::createFoldOwnHeads());
  pm.addNestedPass<func::FuncOp>(ejk::createGatherShifts());
  pm.addPass(createCanonicalizerPass());
}

void ejk::buildToTilePipeline(OpPassManager &pm, const ToGPUOptions &options) {
  bool forCpu = options.keepReadsUpTo != 0; // which has its alternatives by now
  ExpandQueriesOptions queries;
  queries.forSteps = options.schedule == Schedule::step || options.schedule == Schedule::automatic;
  pm.addPass(createExpandQueries(queries));
  if (!forCpu)
    addGatheringPasses(pm);
  pm.addPass(createSplitRotations());
  pm.addPass(createCanonicalizerPass());
  MakeAlternativesOptions copies;
  copies.twoTerms = options.twoTerms;
  copies.byGates = options.byGates;
  if (options.schedule == Schedule::automatic)
    pm.addPass(createMakeAlternatives(copies));
  bool split = options.schedule == Schedule::split;
  if (split || options.schedule == Schedule::chunk)
    pm.addNestedPass<func::FuncOp>(createSeparateStates());
  if (split) {
    SplitOverTimeOptions segments;
    segments.forget = cost::kForgettingGate;
    pm.addPass(createSplitOverTime(segments));
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
  }
  if (split || options.schedule == Schedule::chunk) {
    copies.schedule = options.schedule;
    pm.addPass(createMakeAlternatives(copies));
  }
  if (options.schedule != Schedule::step) {
    // As in steps, below: blocks share wide states only where what they read needs no other part.
    SplitReadsOptions wideReads;
    wideReads.above = cost::kStateElementsPerBlock;
    pm.addPass(createSplitReads(wideReads));
    SplitSumsOptions wideSums;
    wideSums.above = cost::kStateElementsPerBlock;
    pm.addPass(createSplitSums(wideSums));
  }
  SelectScheduleOptions chunk;
  chunk.arch = options.arch;
  chunk.schedule = split ? Schedule::chunk : options.schedule;
  chunk.fuse = options.fuse;
  chunk.saveStates = options.saveStates;
  if (options.chunksOfCpu) {
    chunk.cpu = true;
    chunk.schedule = Schedule::automatic;
  }
  chunk.roundComputed = options.roundComputed;
  chunk.roundExponentials = options.roundExponentials;
  chunk.twoTermStates = options.twoTermStates;
  chunk.f32Matmuls = options.f32Matmuls;
  pm.addPass(createSelectSchedule(chunk));
  if (!forCpu && !options.chunksOfCpu) {
    if (options.schedule != Schedule::step) {
      CutFrontsOptions fronts;
      fronts.arch = options.arch;
      fronts.roundExponentials = options.roundExponentials;
      fronts.twoTermStates = options.twoTermStates;
      pm.addNestedPass<func::FuncOp>(createCutFronts(fronts));
    }
    JamHeadsOptions heads;
    heads.arch = options.arch;
    heads.roundExponentials = options.roundExponentials;
    heads.twoTermStates = options.twoTermStates;
    pm.addPass(createJamHeads(heads));
    pm.addNestedPass<func::FuncOp>(createSumInTurn());
  }
  SplitReadsOptions reads;
  reads.keepUpTo = options.keepReadsUpTo;
  reads.turned = forCpu;
  pm.addPass(createSplitReads(reads));
  pm.addPass(createCanonicalizerPass());
  SplitSumsOptions sums;
  sums.matricesOnly = !forCpu;
  pm.addPass(createSplitSums(sums));
  pm.addPass(createCanonicalizerPass());
  if (forCpu) // of those that stayed whole and were cut since
    pm.addPass(createSplitReads(reads));
  pm.addPass(createCSEPass());
  if (!forCpu) {
    SplitOverTimeOptions rows;
    rows.withoutMatrices = true;
    rows.count = cost::kRowSegments;
    rows.most = rows.packed = cost::kMostRowsOfRowSegment;
    rows.remarks = false;
    pm.addPass(createSplitOverTime(rows));
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(createEnlargeStepTiles());
  }
  // What stands between recurrences becomes as few elementwise ops as it can.
  OpPassManager &functions = pm.nest("func.func");
  // Fusion is of results with one use. The first round gives each op an empty
  // tensor to write, where the conversion gave it an input; with the sizes' uses
  // of the inputs gone too, the second fuses.
  functions.addPass(createConvertElementwiseToLinalgPass());
  functions.addPass(createFuseElementwise());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createFuseElementwise());
}

void ejk::buildPlanPipeline(OpPassManager &pm, const ToGPUOptions &options) {
  buildTileLayoutPipeline(pm, options.arch, options.roundExponentials, options.twoTermStates,
                          options.partitionWarps);
  SelectStagesOptions stage;
  stage.arch = options.arch;
  pm.addPass(createSelectStages(stage));
  pm.addPass(createSplitExponentials());
  const Target *target = findTarget(options.arch);
  if (options.warpSpecialize && target && target->hasBulkCopies) {
    SpecializeWarpsOptions specialize;
    specialize.arch = options.arch;
    // More warps would take registers that the consumer has need of.
    specialize.producerWarps = target->hasSetMaxRegisters ? 4 : 1;
    pm.addPass(createSpecializeWarps(specialize));
  }
  PlanMemoryOptions plan;
  plan.arch = options.arch;
  pm.addPass(createPlanMemory(plan));
  pm.addPass(createTakeTurns());
  pm.addPass(createCheckRaces());
}

void ejk::buildToGPUPipeline(OpPassManager &pm, const ToGPUOptions &options) {
  buildToTilePipeline(pm, options);
  buildPlanPipeline(pm, options);
  buildPlanToGPUPipeline(pm, options);
}

void ejk::buildPlanToGPUPipeline(OpPassManager &pm, const ToGPUOptions &options) {
  LowerToGPUOptions lower;
  lower.arch = options.arch;
  pm.addPass(createLowerToGPU(lower));
  // Each by itself: where one kernel changes, only that one is looked at again.
  for (OpPassManager *each :
       {&pm.nest<func::FuncOp>(), &pm.nest<gpu::GPUModuleOp>().nest<gpu::GPUFuncOp>()}) {
    each->addPass(createCanonicalizerPass(foldsOnly()));
    each->addPass(createCSEPass());
  }
}

/// The pattern that makes one scf.if of two with the same condition, by the names that clang and gcc
/// give it.
static const std::string kCombineIfs[] = {"(anonymous namespace)::CombineIfs",
                                          "{anonymous}::CombineIfs"};

void ejk::buildToNVVMPipeline(OpPassManager &pm) {
  pm.addPass(createSeparateKernels());
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  LegalizeKernelMathOptions math;
  math.specialFunctionUnit = true;
  kernels.addPass(createLegalizeKernelMath(math));
  OpPassManager &each = kernels.nest<gpu::GPUFuncOp>();
  // CSE has since found conditions that are the same, so that their branches become one. The other
  // patterns find little that LLVM does not.
  each.addPass(createCanonicalizerPass(foldsOnly(), {}, kCombineIfs));
  // Vectors are converted with all else, below.
  SCFToControlFlowPassOptions toBlocks;
  toBlocks.allowPatternRollback = false; // as below
  each.addPass(createSCFToControlFlowPass(toBlocks));
  // Arguments of blocks that are always the same value go. Patterns would find nothing.
  GreedyRewriteConfig blocksOnly;
  blocksOnly.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Aggressive);
  each.addPass(createCanonicalizerPass(blocksOnly, {}, {"none"}));
  // By the module's target. ConvertGpuOpsToNVVMOps has the same patterns, and rewrites before them
  // ops that no kernel has, which took two thirds of its time.
  ConvertToLLVMPassOptions toLLVM;
  toLLVM.useDynamic = true;
  // Every conversion is kept, so no pattern needs to be rolled back.
  toLLVM.allowPatternRollback = false;
  kernels.addPass(createConvertToLLVMPass(toLLVM));
  // LLVM's own passes tidy what is left; to do so here, too, leaves the same PTX.
  kernels.addPass(createReconcileUnrealizedCastsPass());
}

/// Elements of the largest state of which a CPU's kernel holds all columns: 256 KiB of the 1 MiB
/// of stack that a package's kernels may take.
static constexpr int64_t kMostElementsOfWholeState = 64 * 1024;

void ejk::buildToCPUPipeline(OpPassManager &pm, StringRef target, Schedule schedule) {
  ToGPUOptions options;
  options.schedule = Schedule::step;
  options.keepReadsUpTo = kMostElementsOfWholeState;
  MakeAlternativesOptions alternatives;
  alternatives.headsOnly = true;
  const CpuTarget *cpu = findCpuTarget(target);
  alternatives.schedule = schedule;
  alternatives.chunks = options.chunksOfCpu =
      cpu && cpu->multipliesBf16 &&
      (schedule == Schedule::automatic || schedule == Schedule::chunk);
  pm.addPass(createExpandQueries());
  addGatheringPasses(pm);
  pm.addPass(createMakeAlternatives(alternatives));
  buildToTilePipeline(pm, options);
  if (options.chunksOfCpu) // outputs are then rounded and stored from registers
    pm.addPass(createSinkIntoBranches());
  LowerToCPUOptions lower;
  lower.target = target.str();
  pm.addPass(createLowerToCPU(lower));
  pm.addPass(createCanonicalizerPass(foldsOnly()));
  pm.addPass(createCSEPass());
}

void ejk::buildCPUToLLVMPipeline(OpPassManager &pm, bool roundBf16) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createLegalizeKernelMath());
  // Without such instructions, LLVM would call a library to round to bf16.
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = !roundBf16;
  kernels.addPass(arith::createArithExpandOpsPass(expand));
  kernels.addPass(createCanonicalizerPass(foldsOnly()));
  kernels.addPass(createCSEPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  if (!roundBf16)
    kernels.addPass(createHoldBf16AsBits());
}

namespace {
struct ToCPUFlags : PassPipelineOptions<ToCPUFlags> {
  Option<std::string> target{*this, "target", llvm::cl::desc("the instruction set"),
                             llvm::cl::init("x86-64-v4")};
  Option<bool> chunks{*this, "chunks",
                      llvm::cl::desc("chunks of bf16 rows, where the target multiplies bf16"),
                      llvm::cl::init(false)};
};

struct ToGPUFlags : PassPipelineOptions<ToGPUFlags> {
  Option<std::string> arch{*this, "arch", llvm::cl::desc("the architecture to lower for"),
                           llvm::cl::init("sm_90")};
  Option<ejk::Schedule> schedule{
      *this, "schedule", llvm::cl::desc("which scans become block programs"),
      llvm::cl::init(ejk::Schedule::step),
      llvm::cl::values(clEnumValN(ejk::Schedule::step, "step", "none"),
                       clEnumValN(ejk::Schedule::chunk, "chunk", "all that have a chunkwise form"),
                       clEnumValN(ejk::Schedule::split, "split",
                                  "the same, over segments of each sequence side by side"),
                       clEnumValN(ejk::Schedule::automatic, "auto", "those of many rows"))};
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("one walk for all gradients where it fits"),
                    llvm::cl::init(true)};
  Option<bool> saveStates{
      *this, "save-states",
      llvm::cl::desc("have f_fwd give the states that f_vjp else walks all steps for"),
      llvm::cl::init(false)};
  Option<bool> warpSpecialize{*this, "warp-specialize",
                     llvm::cl::desc("have other warps copy rows than compute, from sm_90 on"),
                     llvm::cl::init(false)};
  Option<bool> partitionWarps{
      *this, "partition-warps",
      llvm::cl::desc("compute what does not depend on the state in warps of its own, where `arch` lets them"),
      llvm::cl::init(true)};
  Option<bool> roundComputed{
      *this, "round-computed-operands",
      llvm::cl::desc("round operands that are computed in f32 from 16-bit rows"),
      llvm::cl::init(true)};
  Option<bool> roundExponentials{
      *this, "round-exponentials",
      llvm::cl::desc("keep exponentials that are live across a chunk's branch in bf16"),
      llvm::cl::init(true)};
  Option<int64_t> twoTermStates{
      *this, "two-term-states",
      llvm::cl::desc("the most channels of a carried state that a gate's gradient reads in two terms"),
      llvm::cl::init(ejk::kTwoTermStates)};
  Option<ejk::TwoTerms> twoTerms{
      *this, "two-terms",
      llvm::cl::desc("which derivatives compute gates' gradients, and those of recurrences that "
                     "correct their state, from operands in two terms"),
      llvm::cl::init(ejk::kDefaultTwoTerms),
      llvm::cl::values(
          clEnumValN(ejk::TwoTerms::fewChannels, "few-channels", "those of few channels"),
          clEnumValN(ejk::TwoTerms::fewHeads, "few-heads", "those, and of few heads"),
          clEnumValN(ejk::TwoTerms::always, "always", "all"))};
  Option<ejk::ByGates> byGates{
      *this, "by-gates", llvm::cl::desc("which launches choose programs by the gates of each head"),
      llvm::cl::init(ejk::kDefaultByGates),
      llvm::cl::values(clEnumValN(ejk::ByGates::never, "never", "none"),
                       clEnumValN(ejk::ByGates::manyRows, "many-rows", "those of many rows"),
                       clEnumValN(ejk::ByGates::always, "always", "all"))};
  Option<ejk::F32Matmuls> f32Matmuls{
      *this, "f32-matmuls", llvm::cl::desc("how scans of f32 rows are computed"),
      llvm::cl::init(ejk::F32Matmuls::none),
      llvm::cl::values(
          clEnumValN(ejk::F32Matmuls::none, "none", "they go step by step"),
          clEnumValN(ejk::F32Matmuls::bf16x3, "bf16x3", "f32 matmuls of two bf16 terms"),
          clEnumValN(ejk::F32Matmuls::bf16x6, "bf16x6", "f32 matmuls of three bf16 terms"))};
};
} // namespace

void ejk::registerLoweringPipelines() {
  PassPipelineRegistration<ToGPUFlags>(
      "ejk-to-gpu", "specialised scans and block programs to gpu kernels and launches",
      [](OpPassManager &pm, const ToGPUFlags &flags) {
        buildToGPUPipeline(pm, {flags.arch, flags.schedule, flags.fuse, flags.saveStates,
                                flags.warpSpecialize, flags.partitionWarps, flags.roundComputed,
                                flags.roundExponentials, flags.twoTermStates, flags.twoTerms,
                                flags.f32Matmuls, flags.byGates});
      });
  PassPipelineRegistration<ToCPUFlags>(
      "ejk-to-cpu", "specialised scans to a CPU's kernels and launches",
      [](OpPassManager &pm, const ToCPUFlags &flags) { 
        buildToCPUPipeline(pm, flags.target, flags.chunks ? Schedule::chunk : Schedule::step);
      });
  PassPipelineRegistration<ejk::NoFlags>(
      "ejk-cpu-to-llvm", "a CPU's kernels to the llvm dialect",
      [](OpPassManager &pm, const ejk::NoFlags &) { buildCPUToLLVMPipeline(pm); });
  PassPipelineRegistration<ejk::NoFlags>(
      "ejk-to-nvvm", "gpu kernels to the nvvm and llvm dialects",
      [](OpPassManager &pm, const ejk::NoFlags &) { buildToNVVMPipeline(pm); });
}
