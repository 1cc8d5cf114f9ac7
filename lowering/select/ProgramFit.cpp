//===- ProgramFit.cpp - whether a program fits a thread block --------------===//
#include "lowering/select/ProgramFit.h"
#include "lowering/select/TileLayoutPipeline.h"
#include "lowering/target/CostModel.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

/// Whether a matmul of `front` sums over so many channels that each slice should not compute it.
static bool hasLongProducts(tile::ProgramOp front) {
  auto channelsOf = [](tile::DotOp dot) {
    return cast<VectorType>(dot.getLhs().getType()).getDimSize(dot.getLhsTransposed() ? 0 : 1);
  };
  return front
      .walk([&](tile::DotOp dot) {
        return channelsOf(dot) < cost::kFewestChannelsOfFrontProduct ? WalkResult::advance()
                                                                     : WalkResult::interrupt();
      })
      .wasInterrupted();
}

SmallVector<tile::ProgramOp> ejk::cutFronts(tile::ProgramOp program) {
  bool isLaidOut = program->hasAttr(kWarpsAttr);
  if (isLaidOut || int64_t(program.getSlices()) < cost::kFewestSlicesOfFront)
    return {};
  bool packed = bool(program.getCuSeqlens());
  constexpr int64_t most = cost::kMostRowsOfRowSegment;
  auto segments =
      SegmentsAttr::get(program.getContext(), packed ? most : int64_t(program.getChunk()), most,
                        packed ? 1 : cost::kRowSegments, /*exact=*/false, {});
  SmallVector<tile::ProgramOp> programs;
  for (Front kind : {Front::scaledRows, Front::products}) {
    std::optional<ProgramsByState> parts =
        cutFront(programs.empty() ? program : programs.back(), kind, segments);
    if (!parts)
      continue;
    if (kind == Front::products && !hasLongProducts(parts->front)) {
      parts->state.erase();
      parts->front.erase();
      continue;
    }
    if (!programs.empty())
      programs.pop_back_val().erase();
    programs.append({parts->front, parts->state});
  }
  return programs;
}

FailureOr<KnownNeeds::Need> ProgramFit::needOf(tile::ProgramOp program, unsigned stages,
                                               bool mayLoadLate) {
  return known.of({program, stages, mayLoadLate, isInTwoTerms(program)}, target,
                  [&](Operation *copy) {
                    OpPassManager layOut(tile::ProgramOp::getOperationName());
                    buildTileLayoutPipeline(layOut, target.name, roundExponentials, twoTermStates);
                    return runPipeline(layOut, copy);
                  });
}

FailureOr<bool> ProgramFit::fitsBlock(tile::ProgramOp program) {
  FailureOr<KnownNeeds::Need> need = needOf(program, /*stages=*/1, /*mayLoadLate=*/false);
  if (failed(need))
    return failure();
  bool hasRegisters = need->hasRegisters || need->registers <= cost::kMostRegistersOfStates;
  return hasRegisters && need->bytes <= target.sharedBytesPerBlock;
}

FailureOr<std::optional<KnownNeeds::Need>>
ProgramFit::needOfCut(tile::ProgramOp program, unsigned stages, bool mayLoadLate) {
  SmallVector<tile::ProgramOp> parts = cutFronts(program);
  std::optional<KnownNeeds::Need> all;
  LogicalResult result = success();
  for (tile::ProgramOp part : llvm::reverse(parts)) { // each uses those before it
    FailureOr<KnownNeeds::Need> need = needOf(part, all ? 1 : stages, mayLoadLate);
    if (failed(need))
      result = failure();
    else if (!all)
      all = *need;
    else
      all = {std::max(all->bytes, need->bytes), all->isWithoutStage,
             std::max(all->registers, need->registers), all->hasRegisters && need->hasRegisters};
    part.erase();
  }
  if (failed(result))
    return failure();
  if (all)
    all->hasRegisters |= all->registers <= cost::kMostRegistersOfStates;
  return all && all->bytes <= target.sharedBytesPerBlock ? all : std::nullopt;
}
