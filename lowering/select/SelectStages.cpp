//===- SelectStages.cpp - as many stages as a thread block holds -------------===//
#include "lowering/Passes.h"
#include "lowering/pipeline/PipelineBranchOperands.h"
#include "lowering/pipeline/PipelineMatmuls.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/DeferStores.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/pipeline/StoreOperandsEarly.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/kernels/SameOps.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/select/FewBlocks.h"
#include "lowering/select/RowBytes.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {
#define GEN_PASS_DEF_SELECTSTAGES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr uint64_t kAll = ~uint64_t(0);

namespace {
struct SelectStagesPass : ejk::impl::SelectStagesBase<SelectStagesPass> {
  using SelectStagesBase::SelectStagesBase;

  void runOnOperation() override {
    target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (mayStage(program))
        programs.push_back(program);
    });
    SmallVector<Plans> plans;
    for (ProgramOp program : programs) {
      if (failed(checkLaidOut(program)))
        return signalPassFailure();
      // Alternatives of a function have programs in common.
      auto same = llvm::find_if(ArrayRef(programs).take_front(plans.size()),
                                [&](ProgramOp other) { return computeTheSame(other, program); });
      size_t number = same - programs.begin();
      plans.push_back(number < plans.size() ? plans[number] : fit(program));
    }
    llvm::MapVector<func::FuncOp, SmallVector<std::pair<ProgramOp, Plans>>> functions;
    for (auto [program, both] : llvm::zip(programs, plans))
      functions[program->getParentOfType<func::FuncOp>()].push_back({program, both});
    for (auto &[function, own] : functions) {
      // Few heads have few blocks.
      bool isForFew = function->hasAttr(kTwoTermsAttr) && function->hasAttr(kNeedsAttr);
      bool differ = llvm::any_of(own, [](auto &each) { return each.second.alone.has_value(); });
      if (func::FuncOp few = differ && !isForFew ? cloneForFewBlocks(function) : func::FuncOp()) {
        // Its programs in the same order.
        auto next = own.begin();
        few.walk([&](ProgramOp copy) {
          if (mayStage(copy)) {
            follow(copy, next->second.alone.value_or(next->second.beside), few, next - own.begin());
            ++next;
          }
        });
        ++numForFewBlocks;
      }
      for (auto [number, each] : llvm::enumerate(own))
        follow(each.first, isForFew ? each.second.alone.value_or(each.second.beside) : each.second.beside,
               function, number);
    }
  }

  static bool mayStage(ProgramOp program) {
    return program->hasAttr(kWarpsAttr) && !program->hasAttr(kSharedBytesAttr) &&
           program.getBlock().getOps<MakeRingOp>().empty();
  }

  struct Plan {
    cost::StagePlan stages;
    /// When operands that shared memory holds are stored, where registers are short.
    StoreOperands storeOperands = StoreOperands::early;
    /// Which of the tiles that would be spilled to shared memory stay in registers.
    uint64_t held = 0;
    /// The bytes of shared memory that a block then needs.
    unsigned bytes = 0;
  };

  /// The plan of a block beside another one of its multiprocessor, and that of a block alone if it is another.
  struct Plans {
    Plan beside;
    std::optional<Plan> alone;
  };

  /// The first plan that fits beside other blocks with stages enough, and before it the first that fits. One
  /// that has no stages where there is nothing to copy ahead, or no room.
  Plans fit(ProgramOp program) {
    unsigned most = target->sharedBytesPerBlock;
    unsigned beside = cost::sharedBytesOfBlock(*target, warpsOf(program), program->hasAttr(kWarpgroupsAttr));
    std::optional<Plan> first;
    for (const cost::StagePlan &stages : cost::stagePlans()) {
      if (first && (stages.stages < cost::kStagesOfSecondBlock || beside == most))
        break;
      for (auto when : {StoreOperands::early, StoreOperands::late, StoreOperands::atUse}) {
        Plan plan{stages, when, kAll};
        plan.bytes = need(program, plan);
        if (plan.bytes <= beside && stages.stages >= cost::kStagesOfSecondBlock)
          return {withFewestHeld(program, plan, beside),
                  first ? std::optional(withFewestHeld(program, *first, most)) : std::nullopt};
        if (plan.bytes <= most && !first)
          first = plan;
        if (!numStoredEarly)
          break;
      }
    }
    if (first)
      return {withFewestHeld(program, *first, most), std::nullopt};
    Plan none{{0}, StoreOperands::atUse, kAll};
    none.bytes = need(program, none);
    return {withFewestHeld(program, none, most), std::nullopt};
  }

  /// Stages `program`, number `number` of `function`, and says how. Its kernel will be called so: remarks that
  /// say the same are printed once, so those of two programs of a function need a name each.
  void follow(ProgramOp program, const Plan &plan, func::FuncOp function, size_t number) {
    stage(program, plan);
    report(program, plan, (function.getName() + "_blocks" + Twine(number)).str());
    ++(plan.stages.stages > 1 ? numAhead : plan.stages.stages == 1 ? numSingle : numDeclined);
  }

  static unsigned warpsOf(ProgramOp program) {
    return program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt();
  }

  void report(ProgramOp program, const Plan &plan, StringRef kernel) {
    Location loc = program.getLoc();
    int64_t warps = warpsOf(program);
    cost::Decision(loc, kernel, "warps", Twine(warps))
        .from("elements of the largest matrix", largestMatrix(program))
        .from("elements that four warps hold", hasF32Matmuls(program)
                                                   ? cost::kElementsOfFourBusyWarps
                                               : program->hasAttr(kWarpgroupsAttr)
                                                   ? cost::kElementsOfWarpgroup
                                                   : cost::kElementsOfFourWarps)
        .from("registers of live tiles", registersOfLiveTiles(program));
    unsigned tiles = countSpilledTiles(program);
    cost::Decision(loc, kernel, "stages", cost::describe(plan.stages))
        .from("bytes needed", plan.bytes)
        .from("bytes of a block", target->sharedBytesPerBlock)
        .from("tiles spilled to shared memory", tiles);
    cost::Decision(loc, kernel, "loads", usesTmaLoads(program) ? "TMA" : "threads")
        .from("stages", plan.stages.stages)
        .from("warpgroups", program->hasAttr(kWarpgroupsAttr) ? warps / kWarpgroup : 0);
    RowBytes bytes = bytesOfLoadedRows(program);
    cost::Decision(loc, kernel, "slices", Twine(program.getSlices()))
        .from("rows of a chunk", program.getChunk())
        .from("bytes of a row", bytes.once)
        .from("bytes of it that slices load", bytes.bySlices);
  }

  /// `all`, which holds all tiles in registers that would be spilled to shared memory, with those
  /// alone that must be held: one after the other, the one without which least is needed.
  Plan withFewestHeld(ProgramOp program, const Plan &all, unsigned limit) {
    unsigned tiles = countSpilledTiles(program);
    Plan plan = all;
    for (plan.held = 0; (plan.bytes = need(program, plan)) > limit;) {
      if (tiles > cost::kMostSpillsTried)
        return all;
      uint64_t best = kAll;
      unsigned least = std::numeric_limits<unsigned>::max();
      for (unsigned i = 0; i < tiles; ++i) {
        Plan more = plan;
        more.held |= uint64_t(1) << i;
        unsigned needed = more.held == plan.held ? least : need(program, more);
        if (needed < least) {
          least = needed;
          best = more.held;
        }
        if (least <= all.bytes) // No other tile can save more than all tiles do.
          break;
      }
      if (best == kAll)
        return all;
      plan.held = best;
    }
    return plan;
  }

  /// Whether what `plan` asks for was done.
  bool stage(ProgramOp program, Plan plan) {
    keepInRegisters(program, plan.held);
    staged = {};
    numStoredEarly = 0;
    const cost::StagePlan &stages = plan.stages;
    if (!stages.stages)
      return true;
    staged = multistageLoads(program, stages.stages, /*apart=*/stages.pipelinesBranch,
                             stages.stagesF32);
    // Where all rows are f32, none of which has a stage, they are still loaded late.
    bool isStaged = staged.rings || !stages.stagesF32;
    if (!isStaged || (stages.pipelinesMatmuls && !pipelineMatmuls(program)))
      return false;
    numStoredEarly = storeOperandsEarly(program, plan.storeOperands);
    return (!stages.pipelinesBranch ||
            (pipelineBranchOperands(program) && usesTmaLoads(program))) &&
           (!stages.defersStores || (usesTmaLoads(program) && deferStores(program)));
  }

  /// The bytes of all stages of the program's rings.
  static int64_t bytesOfRings(ProgramOp program) {
    int64_t bits = 0;
    for (MakeRingOp ring : program.getBlock().getOps<MakeRingOp>())
      for (Type tile : ring.getType().getTiles())
        bits += ring.getType().getStages() * cast<VectorType>(tile).getNumElements() *
                cast<VectorType>(tile).getElementTypeBitWidth();
    return bits / 8;
  }

  /// The bytes of shared memory that a thread block needs; more than there are where `plan` cannot
  /// be followed.
  unsigned need(ProgramOp program, Plan plan) {
    constexpr unsigned kImpossible = std::numeric_limits<unsigned>::max() - 1;
    // Both compute while matmuls run, which only wgmma lets a warp do.
    const cost::StagePlan &stages = plan.stages;
    if ((stages.pipelinesMatmuls || stages.pipelinesBranch) && !program->hasAttr(kWarpgroupsAttr))
      return kImpossible;
    OpBuilder b(program);
    auto copy = cast<ProgramOp>(b.clone(*program));
    // A pipelined branch may have more operands than a kernel can hold.
    ScopedDiagnosticHandler quiet(program.getContext(), [](Diagnostic &) { return success(); });
    // What rings alone take is known before a kernel is emitted.
    bool isPossible = stage(copy, plan) && bytesOfRings(copy) <= target->sharedBytesPerBlock &&
                      (!stages.pipelinesBranch || succeeded(checkLaidOut(copy)));
    unsigned bytes = isPossible ? sharedMemoryNeed(copy, stages.defersStores) : kImpossible;
    // With TMA the rings have their mbarriers, else only where warps are specialised.
    if (isPossible && !usesTmaLoads(copy))
      bytes += staged.mbarrierBytes();
    copy.erase();
    return bytes;
  }

  const Target *target = nullptr;
  /// Of the plan that was followed last.
  StagedLoads staged;
  unsigned numStoredEarly = 0;
};
} // namespace
