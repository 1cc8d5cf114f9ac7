//===- SelectSchedule.cpp - block programs as large as a thread block holds ----===//
#include "dialect/ejk/Names.h"
#include "lowering/Passes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/FallBacks.h"
#include "lowering/select/GroupCopy.h"
#include "lowering/select/GroupPrograms.h"
#include "lowering/select/ProgramsOfCpu.h"
#include "lowering/select/RoundOutputs.h"
#include "lowering/select/SaveStates.h"
#include "lowering/select/StrongGates.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/chunk/Chunk.h"
#include "passes/program/FusePrograms.h"
#include "passes/program/SimplifyProgram.h"
#include "passes/scan/NarrowOperands.h"
#include "passes/scan/ScaleAfterRead.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/TensorSums.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {
#define GEN_PASS_DEF_SELECTSCHEDULE
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

using cost::kChunkLengths;

namespace {
struct SelectSchedulePass : ejk::impl::SelectScheduleBase<SelectSchedulePass> {
  using SelectScheduleBase::SelectScheduleBase;

  void runOnOperation() override {
    target = findTarget(arch, getOperation().getLoc());
    if (!target)
      return signalPassFailure();
    ProgramFit fit(*target, roundExponentials, twoTermStates,
                   [&](OpPassManager &pm, Operation *op) { return runPipeline(pm, op); });
    GroupPrograms asked(*target, fit, correcting, {cpu, roundComputed, f32Matmuls});
    makers = &asked;
    if (schedule == Schedule::step) {
      if (saveStates)
        emitRemark(getOperation().getLoc(), "no states are saved for derivatives: scans walk "
                                            "step by step; use '--schedule=chunk'");
      return;
    }
    // Who asked for no schedule is told once of a function, its derivative and their alternatives.
    llvm::MapVector<StringRef, std::pair<Location, std::string>> said;
    {
      ScopedDiagnosticHandler once(&getContext(), [&](Diagnostic &diagnostic) {
        if (schedule != Schedule::automatic ||
            diagnostic.getSeverity() != DiagnosticSeverity::Remark)
          return failure();
        said.try_emplace(handled, diagnostic.getLocation(), diagnostic.str());
        return success();
      });
      if (failed(selectAll()))
        signalPassFailure();
    }
    if (cpu) // whose steps are no slow way out
      return;
    for (const auto &[function, remark] : said)
      emitRemark(remark.first) << remark.second;
  }

  LogicalResult selectAll() {
    // What a program needs depends on the type that it stores.
    roundOutputs(getOperation());
    if (saveStates)
      forwardSaves = SaveStates::prepare(getOperation(), schedule == Schedule::automatic);
    correcting = findCorrecting(getOperation());
    llvm::SmallPtrSet<Operation *, 4> forwards; // handled once what they save is known
    for (SaveStates &saves : forwardSaves)
      for (func::FuncOp forward : saves.forwards())
        forwards.insert(forward);
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) {
      auto function = scan->getParentOfType<func::FuncOp>();
      // On a CPU only what was made for chunks goes by them.
      bool mayBeChunks =
          cpu ? scheduleOf(function) == kChunkSchedule : scheduleOf(function) != kStepSchedule;
      if (mayBeChunks && !forwards.contains(function))
        scans.push_back(scan);
    });
    if (failed(handleAll(scans)))
      return failure();
    for (SaveStates &saves : forwardSaves) {
      LogicalResult result = success();
      auto makeProgram = [&](ScanOp scan, int64_t chunk) {
        handled = originOf(scan->getParentOfType<func::FuncOp>());
        FailureOr<tile::ProgramOp> program = makers->makeSaving(scan, chunk);
        if (failed(program))
          result = failure();
        else if (!*program && makers->need.bytes > target->sharedBytesPerBlock)
          saves.noteTooLarge(makers->describeNeed(scan));
        if (failed(program) || !*program)
          return tile::ProgramOp();
        FailureOr<StrongGates> strong = StrongGates::make(
            *makers, scan, *program, /*maySaveEntries=*/true, /*savesEveryEntry=*/false);
        if (failed(strong)) {
          result = failure();
          return tile::ProgramOp();
        }
        strong->join(*program);
        if (failed(strong->takeFallBacks(scan, *makers)))
          result = failure();
        return *program;
      };
      if (succeeded(saves.apply(makeProgram))) {
        scans.clear();
        for (func::FuncOp forward : saves.forwards())
          forward.walk([&](ScanOp scan) { scans.push_back(scan); });
        if (failed(handleAll(scans)))
          return failure();
        ++numForwards;
      }
      if (failed(result))
        return failure();
    }
    roundOutputs(getOperation());
    pruneAlternatives(getOperation());
    return success();
  }

  LogicalResult handleAll(ArrayRef<ScanOp> scans) {
    for (ArrayRef<ScanOp> group : groupScans(scans)) {
      handled = originOf(group.front()->getParentOfType<func::FuncOp>());
      if (failed(handle(group)))
        return failure();
    }
    return success();
  }

  bool isWanted(ScanOp scan) {
    int64_t rows = rowsOf(scan);
    bool few = !ShapedType::isDynamic(rows) && rows < cost::kFewestRowsForChunks;
    // Segments are few, so their states are combined step by step.
    if (llvm::none_of(scan.getStateArgs(), isMatrix) || (cpu && !mayRunOnCpu(scan)))
      return false;
    if (keepsEachState(scan)) {
      scan.emitRemark("not chunked: the state after each row goes to a pool");
      return false;
    }
    return rows != 1 && (schedule == Schedule::chunk || !few);
  }

  LogicalResult handle(ArrayRef<ScanOp> group) {
    SmallVector<ScanOp> wanted =
        llvm::filter_to_vector(group, [&](ScanOp scan) { return isWanted(scan); });
    if (wanted.size() < group.size()) {
      for (ScanOp scan : wanted)
        scan.emitRemark("not chunked: a scan that it shares saved states or sums with has no K×V "
                        "state");
      return success();
    }
    GroupCopy copy(group);
    ChunkForm form = {makers->f32MatmulsOf(copy.scans)};
    if (!form.inF32)
      narrowOperands(copy.scans, roundComputed);
    scaleAfterRead(copy.scans);
    hoistReductions(copy.scans);
    includeDiagonal(copy.scans);
    // A state that is saved every so many rows, a multiple of a chunk's, is the state that the last
    // of these chunks is entered with, in 16 bits unless matmuls are f32. With fewer rows every
    // chunk saves its own.
    auto mayEnter = [](ScanOp scan) {
      int64_t rows = scan.getSaveEvery().value_or(0);
      return rows <= kChunkLengths[0] || rows % kChunkLengths[0] == 0;
    };
    auto saves = [](ScanOp scan) { return scan.getSaveEvery().has_value(); };
    bool savesEntry = llvm::all_of(copy.scans, mayEnter) &&
                      (form.inF32 ? llvm::all_of(copy.scans, saves) && maySaveEntries(copy.scans)
                                  : narrowSaves(copy.scans) > 0);
    auto savesOften = [](ScanOp scan) {
      return scan.getSaveEvery().value_or(0) <= kChunkLengths[0];
    };
    bool savesEveryEntry = savesEntry && llvm::all_of(copy.scans, savesOften);
    bool maySaveEach = maySaveEntries(copy.scans);
    SmallVector<tile::ProgramOp> programs;
    // What a derivative's tiles spill costs more than the saved states of shorter chunks.
    makers->lackedRegisters = false;
    SmallVector<std::pair<int64_t, bool>> trials;
    for (bool mayLackRegisters : {false, true})
      for (int64_t chunk : makers->lengths())
        trials.push_back({chunk, mayLackRegisters});
    for (auto [chunk, mayLackRegisters] : trials) {
      if (savesEveryEntry)
        setSaveEvery(copy.scans, chunk);
      FailureOr<bool> made = makers->make(copy.scans, chunk, mayLackRegisters, form, programs);
      if (failed(made))
        return failure();
      bool doesNotFit = makers->need.bytes > target->sharedBytesPerBlock;
      if (chunk == kChunkLengths[0] && programs.empty() && (doesNotFit || makers->lackedRegisters))
        for (SaveStates &saves : forwardSaves)
          saves.noteDeclined(
              group.front(),
              "programs that take them have chunks of " + std::to_string(chunk) + " steps, which " +
                  (doesNotFit ? "do not fit: " + makers->describeNeed(group.front())
                              : "spill registers: their tiles take " +
                                    std::to_string(makers->need.registers) + " of a thread"));
      if (!*made || !programs.empty())
        break;
    }
    if (programs.empty()) {
      copy.undo();
      numDeclined += group.size();
      return success();
    }
    if (failed(makers->widenSlices(copy.scans, form, savesEveryEntry, programs)))
      return failure();
    // Of shorter chunks saved states are most of the bytes: little is saved, and the loop longer.
    bool isLong = programs.front().getChunk() == kChunkLengths[0];
    bool mayFuse = fuse && isLong && programs.size() == 2;
    // Segments of one kernel for all gradients start from states that the forward pass saves.
    // Programs for strong gates take none, and would need a pass over all rows before.
    auto segments = copy.scans.front().getSegments();
    bool startFromSaves = mayFuse && segments && !segments->isOneEach();
    FailureOr<StrongGates> strong =
        startFromSaves
            ? StrongGates()
            : StrongGates::make(*makers, copy.scans, programs, maySaveEach, savesEveryEntry);
    if (failed(strong))
      return failure();
    FallBacks fallBacks(*makers, copy.scans, programs, form);
    for (auto [scan, program] : llvm::zip(copy.scans, programs)) {
      numShorter += int64_t(program.getChunk()) < makers->lengths().front();
      replaceScan(scan, program);
      ++numChunked;
    }
    // Operands in two terms take the registers that one kernel for all gradients has need of.
    FailureOr<bool> isFused = false;
    if (mayFuse && isInTwoTerms(programs[0]))
      makers->decide(group.front(), "fused-backward", "a kernel for each scan, in two terms");
    else if (mayFuse)
      isFused = fusePair(group.front(), programs[0], programs[1], fallBacks);
    if (failed(isFused))
      return failure();
    strong->join(*isFused ? ArrayRef<tile::ProgramOp>() : ArrayRef(programs));
    FailureOr<unsigned> taken = fallBacks.take(group.front(), *makers);
    FailureOr<unsigned> takenByStrong = strong->takeFallBacks(group.front(), *makers);
    if (failed(taken) || failed(takenByStrong))
      return failure();
    numFallingBack += *taken + *takenByStrong;
    numByGates += strong->exist();
    // Of a group of several none is there to decode, and no derivative is.
    ScanOp first = group.front();
    bool choose = ShapedType::isDynamic(rowsOf(first)) && !first.getCuSeqlens() &&
                  !first.getSegments() && !readsPool(first) && group.size() == 1 &&
                  !first->getParentOp()->hasAttr(kDerivativeOfAttr) &&
                  !hasStepAlternative(first->getParentOfType<func::FuncOp>());
    if (choose && !form.inF32) // The rows that the program takes are then all that is made of them.
      narrowOperands(group, roundComputed);
    copy.finish(choose);
    return success();
  }

  /// Fuses two programs, of which the second reads what the first, made of `scan`, computes,
  /// where that can be and fits. Returns whether they are one now. One kernel has no room for
  /// shorter chunks.
  FailureOr<bool> fusePair(ScanOp scan, tile::ProgramOp first, tile::ProgramOp second,
                           FallBacks &fallBacks) {
    FailureOr<FusedPrograms> fused = fusePrograms(first, second);
    if (failed(fused))
      return false;
    mergeIfs(fused->all);
    scaleAfterDot(fused->all);
    FailureOr<bool> statesFit = makers->fits(fused->states);
    FailureOr<bool> allFits = makers->fits(fused->all, /*stages=*/1, /*mayLoadLate=*/true);
    if (failed(statesFit) || failed(allFits))
      return failure();
    // A state wider than a slice is there because it alone has registers.
    bool lacksRegisters = !cpu && *allFits && !makers->need.hasRegisters &&
                          elementsOfStates(scan) > cost::kStateElementsPerBlock;
    *allFits = *allFits && !lacksRegisters;
    makers->decide(scan, "fused-backward",
                   *statesFit && *allFits ? "one kernel for all gradients"
                                          : "a kernel for each scan");
    if (*statesFit && *allFits) {
      fallBacks.drop();
      replacePrograms(first, second, *fused);
      // By now the scan is gone, and only a name.
      for (SaveStates &saves : forwardSaves)
        saves.note(scan, fused->states);
      ++numFused;
      return true;
    }
    std::string why = *allFits         ? "the program that saves states does not fit"
                      : lacksRegisters ? "one program for all of its gradients lacks registers"
                                       : "one program for all of its gradients does not fit: " +
                                             makers->describeNeed(scan);
    for (SaveStates &saves : forwardSaves)
      saves.noteDeclined(scan, why);
    fused->all.erase();
    fused->states.erase();
    return false;
  }

  const Target *target = nullptr;
  std::vector<SaveStates> forwardSaves;
  Correcting correcting;
  /// The user's function whose scans are being handled.
  StringRef handled;
  /// While the pass runs.
  GroupPrograms *makers = nullptr;
};
} // namespace
