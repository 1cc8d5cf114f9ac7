//===- GroupPrograms.cpp - block programs of a group of scans --------------===//
#include "lowering/select/GroupPrograms.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/select/ProgramsOfCpu.h"
#include "lowering/select/RangeGuards.h"
#include "lowering/select/RowBytes.h"
#include "passes/scan/NarrowOperands.h"
#include "passes/scan/ScaleAfterRead.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

using cost::kChunkLengths;

void ejk::setSaveEvery(ArrayRef<ScanOp> scans, int64_t rows) {
  for (ScanOp scan : scans)
    if (scan.getSaveEvery())
      scan.setSaveEvery(rows);
}

ArrayRef<int64_t> GroupPrograms::lengths() const {
  return options.cpu ? ArrayRef(cost::kChunkLengthsOnCpu) : ArrayRef(kChunkLengths);
}

std::optional<tile::DotAlgorithm> GroupPrograms::f32MatmulsOf(ArrayRef<ScanOp> group) const {
  auto mayBeRounded = [&](ScanOp scan) {
    return findOperandSources(scan, options.roundComputed).mayBeRounded();
  };
  return llvm::all_of(group, mayBeRounded) ? std::nullopt : algorithmOf(options.f32Matmuls);
}

ChunkSettings GroupPrograms::settingsFor(ScanOp scan, int64_t chunk, bool saveEntries,
                                         const ChunkForm &form) const {
  ChunkSettings settings;
  settings.chunk = chunk;
  settings.corrects = correcting.contains(scan);
  settings.saveEntries = saveEntries;
  settings.inExponents = !form.inF32;
  settings.roundComputed = options.roundComputed;
  settings.sumFromStart = options.cpu;
  settings.f32Matmuls = form.inF32;
  settings.strongGate = form.strongGate;
  settings.savedChunk = form.savedChunk;
  // Whole swizzled blocks, so that TMA loads the tiles and `wgmma` reads them.
  if (target.hasWgmma && !form.inF32)
    settings.columnBlock = kSwizzledColumns;
  return settings;
}

FailureOr<tile::ProgramOp> GroupPrograms::makeSaving(ScanOp scan, int64_t chunk) {
  ChunkForm form = {f32MatmulsOf(scan)};
  ChunkSettings settings = settingsFor(scan, chunk, /*saveEntries=*/true, form);
  if (!form.inF32)
    narrowOperands(scan, options.roundComputed);
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

FailureOr<bool> GroupPrograms::make(ArrayRef<ScanOp> group, int64_t chunk, bool mayLackRegisters,
                                    const ChunkForm &form,
                                    SmallVectorImpl<tile::ProgramOp> &programs) {
  ChunkSettings settings =
      settingsFor(group.front(), chunk, savesEntries(group, chunk, form.maySaveEntries), form);
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
    bool mayLoadLate = form.strongGate || (settings.saveEntries && group.size() > 1);
    FailureOr<bool> fits = takesOrdinaryGates(*program, options.cpu)
                               ? this->fits(*program, /*stages=*/1, mayLoadLate)
                               : false;
    if (failed(fits))
      return failure();
    bool lacksRegisters = !options.cpu && *fits && !mayLackRegisters && mayLoadLate &&
                          chunk == kChunkLengths[0] &&
                          need.registers > cost::kTileRegistersOfDerivative;
    decide(scan, "chunk-length",
           Twine(chunk) + (lacksRegisters ? " rows lack registers"
                           : *fits        ? " rows"
                           : need.bytes   ? " rows do not fit"
                                          : " rows would leave the fast path too often"))
        .from("registers of live tiles", options.cpu ? 0 : need.registers)
        .from("state elements", elementsOfStates(scan))
        .from("range guard's nats", leastGuard(*program))
        .from("nats of ordinary gates", int64_t(cost::kNatsPerRow * chunk / (options.cpu ? 1 : 2)));
    if (*fits && !lacksRegisters)
      continue;
    lackedRegisters |= lacksRegisters;
    bool isLast = chunk == lengths().back() && (mayLackRegisters || !lackedRegisters);
    if (isLast)
      scan.emitRemark("not chunked: its tiles do not fit into a thread block, even in chunks of ")
          << chunk << " steps: "
          << (takesOrdinaryGates(*program, options.cpu) ? describeNeed(scan)
                                                        : "its gates per channel are out of range");
    giveUp();
    return !isLast;
  }
  return true;
}

LogicalResult GroupPrograms::widenSlices(ArrayRef<ScanOp> group, const ChunkForm &form,
                                         bool savesEveryEntry,
                                         SmallVectorImpl<tile::ProgramOp> &programs) {
  if (options.cpu || llvm::all_of(programs, [](auto program) { return program.getSlices() == 1; }))
    return success();
  auto saveEvery = [&](int64_t chunk) {
    if (savesEveryEntry)
      setSaveEvery(group, chunk);
  };
  int64_t fewest = bytesMovedForRow(programs);
  for (int64_t elements : cost::kWideStateElements)
    for (int64_t chunk : kChunkLengths) {
      if (chunk < cost::kFewestRowsForWideSlices)
        continue;
      saveEvery(chunk);
      SmallVector<tile::ProgramOp> wider;
      FailureOr<bool> isBetter = makeWider(group, form, chunk, elements, fewest, wider);
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
FailureOr<bool> GroupPrograms::makeWider(ArrayRef<ScanOp> group, const ChunkForm &form,
                                         int64_t chunk, int64_t elements, int64_t fewest,
                                         SmallVectorImpl<tile::ProgramOp> &programs) {
  ChunkSettings settings =
      settingsFor(group.front(), chunk, savesEntries(group, chunk, form.maySaveEntries), form);
  settings.stateElements = elements;
  for (ScanOp scan : group) {
    FailureOr<tile::ProgramOp> program = chunkScan(scan, settings);
    if (failed(program))
      return false;
    programs.push_back(*program);
  }
  int64_t bytes = bytesMovedForRow(programs);
  bool isInRange = llvm::all_of(
      programs, [&](tile::ProgramOp program) { return takesOrdinaryGates(program, options.cpu); });
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

FailureOr<bool> GroupPrograms::fits(tile::ProgramOp program, unsigned stages, bool mayLoadLate) {
  need = {};
  if (options.cpu)
    return runsOnCpu(program);
  FailureOr<std::optional<KnownNeeds::Need>> cut = fit.needOfCut(program, stages, mayLoadLate);
  if (succeeded(cut) && *cut) {
    need = **cut;
    return true;
  }
  FailureOr<KnownNeeds::Need> whole = fit.needOf(program, stages, mayLoadLate);
  if (failed(cut) || failed(whole))
    return failure();
  need = *whole;
  return need.bytes <= target.sharedBytesPerBlock;
}

cost::Decision GroupPrograms::decide(ScanOp scan, StringRef name, const Twine &chosen) const {
  cost::Decision decision(scan.getLoc(), scan->getParentOfType<func::FuncOp>().getName(), name,
                          chosen);
  decision.from("bytes needed", need.bytes).from("bytes of a block", target.sharedBytesPerBlock);
  return decision;
}
