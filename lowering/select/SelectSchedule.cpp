//===- SelectSchedule.cpp - block programs as large as a thread block holds ----===//
#include "dialect/ejk/Names.h"
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/FallBacks.h"
#include "lowering/select/GroupCopy.h"
#include "lowering/select/ProgramFit.h"
#include "lowering/select/ProgramsOfCpu.h"
#include "lowering/select/RangeGuards.h"
#include "lowering/select/RoundOutputs.h"
#include "lowering/select/RowBytes.h"
#include "lowering/select/SaveStates.h"
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
    ProgramFit asked(*target, roundExponentials, twoTermStates,
                     [&](OpPassManager &pm, Operation *op) { return runPipeline(pm, op); });
    fit = &asked;
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
        FailureOr<tile::ProgramOp> program = makeSaving(scan, chunk);
        if (failed(program))
          result = failure();
        else if (!*program && need.bytes > target->sharedBytesPerBlock)
          saves.noteTooLarge(describeNeed(scan, need, *target));
        return program.value_or(tile::ProgramOp());
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

  /// The algorithm of f32 matmuls where a scan of `group` has operands that may not be rounded. All
  /// of them then have it: terms of theirs cancel, and must have the same rounding.
  std::optional<tile::DotAlgorithm> f32MatmulsOf(ArrayRef<ScanOp> group) {
    auto mayBeRounded = [&](ScanOp scan) {
      return findOperandSources(scan, roundComputed).mayBeRounded();
    };
    return llvm::all_of(group, mayBeRounded) ? std::nullopt : algorithmOf(f32Matmuls);
  }

  ChunkSettings settingsFor(ScanOp scan, int64_t chunk, bool saveEntries,
                            std::optional<tile::DotAlgorithm> inF32) {
    ChunkSettings settings;
    settings.chunk = chunk;
    settings.corrects = correcting.contains(scan);
    settings.saveEntries = saveEntries;
    settings.inExponents = !inF32;
    settings.roundComputed = roundComputed;
    settings.sumFromStart = cpu;
    settings.f32Matmuls = inF32;
    // Whole swizzled blocks, so that TMA loads the tiles and `wgmma` reads them.
    if (target->hasWgmma && !inF32)
      settings.columnBlock = kSwizzledColumns;
    return settings;
  }

  /// A program of `scan` that saves the state that each chunk is entered with; none where it
  /// does not fit. Fails after an error.
  FailureOr<tile::ProgramOp> makeSaving(ScanOp scan, int64_t chunk) {
    std::optional<tile::DotAlgorithm> inF32 = f32MatmulsOf(scan);
    ChunkSettings settings = settingsFor(scan, chunk, /*saveEntries=*/true, inF32);
    if (!inF32)
      narrowOperands(scan, roundComputed);
    scaleAfterRead(scan);
    FailureOr<tile::ProgramOp> program = chunkScan(scan, settings);
    if (failed(program))
      return tile::ProgramOp();
    FailureOr<bool> fits = this->fits(*program, /*stages=*/2, /*mayLoadLate=*/true);
    if (failed(fits))
      return failure();
    if (*fits)
      return program;
    program->erase();
    return tile::ProgramOp();
  }

  /// The lengths of chunks that are tried, in order.
  ArrayRef<int64_t> lengths() const { return cpu ? ArrayRef(cost::kChunkLengthsOnCpu) : ArrayRef(kChunkLengths); }

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
    std::optional<tile::DotAlgorithm> inF32 = f32MatmulsOf(copy.scans);
    if (!inF32)
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
                      (inF32 ? llvm::all_of(copy.scans, saves) && maySaveEntries(copy.scans)
                             : narrowSaves(copy.scans) > 0);
    auto savesOften = [](ScanOp scan) {
      return scan.getSaveEvery().value_or(0) <= kChunkLengths[0];
    };
    bool savesEveryEntry = savesEntry && llvm::all_of(copy.scans, savesOften);
    SmallVector<tile::ProgramOp> programs;
    // What a derivative's tiles spill costs more than the saved states of shorter chunks.
    lackedRegisters = false;
    SmallVector<std::pair<int64_t, bool>> trials;
    for (bool mayLackRegisters : {false, true})
      for (int64_t chunk : lengths())
        trials.push_back({chunk, mayLackRegisters});
    for (auto [chunk, mayLackRegisters] : trials) {
      if (savesEveryEntry)
        for (ScanOp scan : copy.scans)
          if (scan.getSaveEvery())
            scan.setSaveEvery(chunk);
      FailureOr<bool> made = makePrograms(copy.scans, chunk, mayLackRegisters, inF32, programs);
      if (failed(made))
        return failure();
      bool doesNotFit = need.bytes > target->sharedBytesPerBlock;
      if (chunk == kChunkLengths[0] && programs.empty() && (doesNotFit || lackedRegisters))
        for (SaveStates &saves : forwardSaves)
          saves.noteDeclined(
              group.front(),
              "programs that take them have chunks of " + std::to_string(chunk) + " steps, which " +
                  (doesNotFit ? "do not fit: " + describeNeed(group.front(), need, *target)
                              : "spill registers: their tiles take " +
                                    std::to_string(need.registers) + " of a thread"));
      if (!*made || !programs.empty())
        break;
    }
    if (programs.empty()) {
      copy.undo();
      numDeclined += group.size();
      return success();
    }
    if (failed(widenSlices(copy.scans, inF32, savesEveryEntry, programs)))
      return failure();
    constexpr int64_t rows = cost::kChunkRowsOfStrongGates;
    FallBacks fallBacks(copy.scans, programs,
                        settingsFor(copy.scans.front(), rows, savesEntries(copy.scans, rows), inF32));
    for (auto [scan, program] : llvm::zip(copy.scans, programs)) {
      numShorter += int64_t(program.getChunk()) < lengths().front();
      replaceScan(scan, program);
      ++numChunked;
    }
    // Of shorter chunks saved states are most of the bytes: little is saved, and the walk longer.
    bool isLong = programs.front().getChunk() == kChunkLengths[0];
    // Operands in two terms take the registers that one kernel for all gradients has need of.
    bool mayFuse = fuse && isLong && programs.size() == 2;
    if (mayFuse && isInTwoTerms(programs[0]))
      decide(group.front(), "fused-backward", "a kernel for each scan, in two terms");
    else if (mayFuse && failed(fusePair(group.front(), programs[0], programs[1], fallBacks)))
      return failure();
    FailureOr<unsigned> taken = fallBacks.take(group.front(), *target, [&](tile::ProgramOp program) {
      return failed(fits(program, /*stages=*/1, /*mayLoadLate=*/true)) ? std::nullopt : std::optional(need.bytes);
    });
    if (failed(taken))
      return failure();
    numFallingBack += *taken;
    // Of a group of several none is there to decode, and no derivative is.
    ScanOp first = group.front();
    bool choose = ShapedType::isDynamic(rowsOf(first)) && !first.getCuSeqlens() &&
                  !first.getSegments() && !readsPool(first) && group.size() == 1 &&
                  !first->getParentOp()->hasAttr(kDerivativeOfAttr) &&
                  !hasStepAlternative(first->getParentOfType<func::FuncOp>());
    if (choose && !inF32) // The rows that the program takes are then all that is made of them.
      narrowOperands(group, roundComputed);
    copy.finish(choose);
    return success();
  }

  /// Fuses two programs, of which the second reads what the first, made of `scan`, computes,
  /// where that can be and fits. One kernel has no room for shorter chunks.
  LogicalResult fusePair(ScanOp scan, tile::ProgramOp first, tile::ProgramOp second,
                         FallBacks &fallBacks) {
    FailureOr<FusedPrograms> fused = fusePrograms(first, second);
    if (failed(fused))
      return success();
    mergeIfs(fused->all);
    scaleAfterDot(fused->all);
    FailureOr<bool> statesFit = fits(fused->states);
    FailureOr<bool> allFits = fits(fused->all, /*stages=*/1, /*mayLoadLate=*/true);
    if (failed(statesFit) || failed(allFits))
      return failure();
    // A state wider than a slice is there because it alone has registers.
    bool lacksRegisters = !cpu && *allFits && !need.hasRegisters &&
                          elementsOfStates(scan) > cost::kStateElementsPerBlock;
    *allFits = *allFits && !lacksRegisters;
    decide(scan, "fused-backward",
           *statesFit && *allFits ? "one kernel for all gradients" : "a kernel for each scan");
    if (*statesFit && *allFits) {
      fallBacks.drop();
      replacePrograms(first, second, *fused);
      // By now the scan is gone, and only a name.
      for (SaveStates &saves : forwardSaves)
        saves.note(scan, fused->states);
      ++numFused;
      return success();
    }
    std::string why = *allFits ? "the program that saves states does not fit"
                      : lacksRegisters ? "one program for all of its gradients lacks registers"
                      : "one program for all of its gradients does not fit: " + describeNeed(scan, need, *target);
    for (SaveStates &saves : forwardSaves)
      saves.noteDeclined(scan, why);
    fused->all.erase();
    fused->states.erase();
    return success();
  }

  /// Programs of the group's scans in chunks of `chunk`; none where they do not fit, or where the
  /// longest chunks spill much, unless they `mayLackRegisters`; and false, after a remark, where no
  /// other chunks will do.
  FailureOr<bool> makePrograms(ArrayRef<ScanOp> group, int64_t chunk, bool mayLackRegisters,
                               std::optional<tile::DotAlgorithm> inF32,
                               SmallVectorImpl<tile::ProgramOp> &programs) {
    ChunkSettings settings = settingsFor(group.front(), chunk, savesEntries(group, chunk), inF32);
    need = {};
    auto giveUp = [&] {
      for (tile::ProgramOp program : programs)
        program.erase();
      programs.clear();
    };
    for (ScanOp scan : group) {
      FailureOr<tile::ProgramOp> program = chunkScan(scan, settings);
      if (failed(program)) {
        for (ScanOp other : group)
          if (other != scan)
            other.emitRemark("not chunked: a scan that it shares saved states with is not");
        giveUp();
        return false;
      }
      programs.push_back(*program);
      // Programs that share saved states may become one, which saves more than early loads.
      bool mayLoadLate = settings.saveEntries && group.size() > 1;
      FailureOr<bool> fits = takesOrdinaryGates(*program, cpu)
                                 ? this->fits(*program, /*stages=*/1, mayLoadLate)
                                 : false;
      if (failed(fits))
        return failure();
      bool lacksRegisters = !cpu && *fits && !mayLackRegisters && mayLoadLate &&
                            chunk == kChunkLengths[0] &&
                            need.registers > cost::kTileRegistersOfDerivative;
      decide(scan, "chunk-length",
             Twine(chunk) + (lacksRegisters ? " rows lack registers"
                             : *fits        ? " rows"
                             : need.bytes   ? " rows do not fit"
                                            : " rows would leave the fast path too often"))
          .from("registers of live tiles", cpu ? 0 : need.registers)
          .from("state elements", elementsOfStates(scan))
          .from("range guard's nats", leastGuard(*program))
          .from("nats of ordinary gates", int64_t(cost::kNatsPerRow * chunk / (cpu ? 1 : 2)));
      if (*fits && !lacksRegisters)
        continue;
      lackedRegisters |= lacksRegisters;
      bool isLast = chunk == lengths().back() && (mayLackRegisters || !lackedRegisters);
      if (isLast)
        scan.emitRemark("not chunked: its tiles do not fit into a thread block, even in chunks of ")
            << chunk << " steps: "
            << (takesOrdinaryGates(*program, cpu) ? describeNeed(scan, need, *target)
                                                  : "its gates per channel are out of range");
      giveUp();
      return !isLast;
    }
    return true;
  }

  /// Where states are cut into slices, each of which loads rows again: puts programs of fewer,
  /// wider slices in the place of `programs`, in chunks as long or shorter, if they move fewer
  /// bytes and if shared memory and registers suffice.
  LogicalResult widenSlices(ArrayRef<ScanOp> group, std::optional<tile::DotAlgorithm> inF32,
                            bool savesEveryEntry, SmallVectorImpl<tile::ProgramOp> &programs) {
    if (cpu || llvm::all_of(programs, [](auto program) { return program.getSlices() == 1; }))
      return success();
    auto saveEvery = [&](int64_t chunk) {
      if (savesEveryEntry)
        for (ScanOp scan : group)
          if (scan.getSaveEvery())
            scan.setSaveEvery(chunk);
    };
    int64_t fewest = bytesMovedForRow(programs);
    for (int64_t elements : cost::kWideStateElements)
      for (int64_t chunk : kChunkLengths) {
        if (chunk < cost::kFewestRowsForWideSlices)
          continue;
        saveEvery(chunk);
        SmallVector<tile::ProgramOp> wider;
        FailureOr<bool> isBetter = makeWider(group, inF32, chunk, elements, fewest, wider);
        if (succeeded(isBetter) && *isBetter) {
          fewest = bytesMovedForRow(wider);
          std::swap(programs, wider);
        }
        for (tile::ProgramOp program : wider)
          program.erase();
        if (failed(isBetter))
          return failure();
      }
    saveEvery(programs.front().getChunk());
    return success();
  }

  /// Makes `programs` with up to `elements` state elements in a slice. Returns whether they move
  /// fewer bytes a row than `fewest` and fit.
  FailureOr<bool> makeWider(ArrayRef<ScanOp> group, std::optional<tile::DotAlgorithm> inF32,
                            int64_t chunk, int64_t elements, int64_t fewest,
                            SmallVectorImpl<tile::ProgramOp> &programs) {
    ChunkSettings settings = settingsFor(group.front(), chunk, savesEntries(group, chunk), inF32);
    settings.stateElements = elements;
    for (ScanOp scan : group) {
      FailureOr<tile::ProgramOp> program = chunkScan(scan, settings);
      if (failed(program))
        return false;
      programs.push_back(*program);
    }
    int64_t bytes = bytesMovedForRow(programs);
    bool isInRange = llvm::all_of(
        programs, [&](tile::ProgramOp program) { return takesOrdinaryGates(program, cpu); });
    if (bytes >= fewest || !isInRange)
      return false;
    for (auto [scan, program] : llvm::zip(group, programs)) {
      FailureOr<bool> fits =
          this->fits(program, /*stages=*/1, settings.saveEntries && group.size() > 1);
      if (failed(fits))
        return failure();
      decide(scan, "state-slices",
             Twine(program.getSlices()) + " in chunks of " + Twine(chunk) + " rows" +
                 (!*fits               ? " do not fit"
                  : !need.hasRegisters ? " lack registers"
                                       : ""))
          .from("state elements", elementsOfStates(scan))
          .from("registers of live tiles", need.registers)
          .from("bytes moved for a row", bytes)
          .from("bytes of more slices", fewest);
      if (!*fits || !need.hasRegisters)
        return false;
    }
    return true;
  }

  /// Whether `program`, or each kernel that it is cut into, fits with so many stages of rows. With
  /// `mayLoadLate`, f32 matrices may have no stage.
  FailureOr<bool> fits(tile::ProgramOp program, unsigned stages = 1, bool mayLoadLate = false) {
    need = {};
    if (cpu)
      return runsOnCpu(program);
    FailureOr<std::optional<KnownNeeds::Need>> cut = fit->needOfCut(program, stages, mayLoadLate);
    if (succeeded(cut) && *cut) {
      need = **cut;
      return true;
    }
    FailureOr<KnownNeeds::Need> whole = fit->needOf(program, stages, mayLoadLate);
    if (failed(cut) || failed(whole))
      return failure();
    need = *whole;
    return need.bytes <= target->sharedBytesPerBlock;
  }

  /// A decision on `scan`, which depends on what the last program asked about needs.
  cost::Decision decide(ScanOp scan, StringRef name, const Twine &chosen) {
    cost::Decision decision(scan.getLoc(), scan->getParentOfType<func::FuncOp>().getName(), name,
                            chosen);
    decision.from("bytes needed", need.bytes).from("bytes of a block", target->sharedBytesPerBlock);
    return decision;
  }

  const Target *target = nullptr;
  std::vector<SaveStates> forwardSaves;
  Correcting correcting;
  /// The user's function whose scans are being handled.
  StringRef handled;
  /// While the pass runs.
  ProgramFit *fit = nullptr;
  /// What the last program asked about needs.
  KnownNeeds::Need need;
  /// Whether programs of the group at hand fitted that lacked registers.
  bool lackedRegisters = false;
};
} // namespace
