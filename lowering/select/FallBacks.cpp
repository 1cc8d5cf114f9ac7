//===- FallBacks.cpp - shorter chunks for gates out of range ---------------===//
#include "lowering/select/FallBacks.h"
#include "dialect/ejk/Names.h"
#include "lowering/select/RangeGuards.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/program/FallBackToShortChunks.h"

using namespace mlir;
using namespace ejk;

FallBacks::FallBacks(const GroupPrograms &makers, ArrayRef<ScanOp> scans,
                     ArrayRef<tile::ProgramOp> programs, const ChunkForm &form) {
  constexpr int64_t chunk = cost::kChunkRowsOfStrongGates;
  // Both paths of a chunk save the same states.
  bool saveEntries = savesEntries(scans, chunk, form.maySaveEntries);
  ChunkSettings settings = makers.settingsFor(scans.front(), chunk, saveEntries,
                                              {form.inF32, /*strongGate=*/0, form.savedChunk});
  for (auto [scan, program] : llvm::zip(scans, programs)) {
    int64_t rows = tile::ProgramOp(program).getChunk();
    if (settings.sumFromStart || rows <= settings.chunk || !guardsGates(program) ||
        !mayLeaveRange(scan, rows))
      continue;
    FailureOr<tile::ProgramOp> shorter = chunkScan(scan, settings);
    bool isOfUse = succeeded(shorter) && cost::takesStrongGates(leastGuard(*shorter), settings.chunk);
    if (!isOfUse) {
      if (succeeded(shorter))
        shorter->erase();
      drop();
      return;
    }
    OpBuilder b(*shorter);
    auto inputs = UnrealizedConversionCastOp::create(b, ScanOp(scan).getLoc(), (*shorter)->getOperandTypes(),
                                                     ValueRange());
    (*shorter)->setOperands(inputs.getResults());
    all.push_back({program, *shorter, inputs, ScanOp(scan).getReverse()});
  }
}

void FallBacks::drop() {
  for (FallBack &each : all) {
    each.shorter.erase();
    each.inputs.erase();
  }
  all.clear();
}

/// The bytes of all rows that a chunk loads.
static int64_t bytesOfStage(tile::ProgramOp program) {
  int64_t bytes = 0;
  for (auto loop : program.getBlock().getOps<scf::ForOp>())
    for (auto load : loop.getBody()->getOps<tile::LoadOp>()) {
      auto type = cast<VectorType>(load.getType());
      bytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
    }
  return bytes;
}

/// Whether a program that needs `bytes` with one stage has as many stages and blocks of a multiprocessor as
/// if it needed `without`. Fewer would cost chunks whose gates are in range.
static bool hasAsManyStages(unsigned bytes, unsigned without, int64_t ofStage, const Target &target) {
  auto hasAsMany = [&](int64_t limit) {
    constexpr int64_t most = cost::kMostStages - 1;
    auto more = [&](int64_t needed) { return std::min((limit - needed) / std::max<int64_t>(ofStage, 1), most); };
    return without > limit || (bytes <= limit && more(bytes) >= more(without));
  };
  return bytes <= target.sharedBytesPerBlock && hasAsMany(target.sharedBytesPerBlock) &&
         hasAsMany(cost::sharedBytesOfBlock(target, cost::kFewWarps, target.hasWgmma));
}

FailureOr<unsigned> FallBacks::take(ScanOp scan, GroupPrograms &makers) {
  const Target &target = makers.target;
  auto bytesOf = [&](tile::ProgramOp program) {
    return failed(makers.fits(program, /*stages=*/1, /*mayLoadLate=*/true))
               ? std::nullopt
               : std::optional(makers.need.bytes);
  };
  SmallVector<tile::ProgramOp> trials;
  bool areTaken = true, isDerivative = scan->getParentOp()->hasAttr(kDerivativeOfAttr);
  for (FallBack &each : all) {
    int64_t rows = each.shorter.getChunk();
    std::optional<unsigned> without = bytesOf(each.program);
    if (!without)
      return failure();
    trials.push_back(cast<tile::ProgramOp>(OpBuilder(each.program).clone(*each.program)));
    if (!fallBackToShortChunks(trials.back(), each.shorter, each.isReverse)) {
      each.shorter.erase();
      areTaken = false;
      continue;
    }
    std::optional<unsigned> bytes = bytesOf(trials.back());
    if (!bytes)
      return failure();
    int64_t ofStage = bytesOfStage(each.program);
    // In a derivative they are less exact than steps, so they may not take memory that a stage could have.
    bool hasOneStage = *without + ofStage > target.sharedBytesPerBlock;
    bool isTaken = isDerivative && !hasOneStage ? *bytes <= *without
                                                : hasAsManyStages(*bytes, *without, ofStage, target);
    cost::Decision(scan.getLoc(), scan->getParentOfType<func::FuncOp>().getName(), "strong-gates",
                   isTaken ? "shorter chunks" : "step by step")
        .from("bytes needed", *bytes)
        .from("bytes needed without", *without)
        .from("bytes of a stage", ofStage)
        .from("bytes of a block", target.sharedBytesPerBlock)
        .from("rows of a shorter chunk", rows);
    areTaken &= isTaken;
  }
  for (auto [each, trial] : llvm::zip(all, trials)) {
    tile::ProgramOp unused = areTaken ? each.program : trial;
    if (areTaken)
      unused.replaceAllUsesWith(trial);
    unused.erase();
    each.inputs.erase();
  }
  unsigned count = areTaken ? all.size() : 0;
  all.clear();
  return count;
}
