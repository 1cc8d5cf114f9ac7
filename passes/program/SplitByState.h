//===- SplitByState.h - what a chunk has of its rows alone --------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_SPLITBYSTATE_H
#define EJK_PASSES_PROGRAM_SPLITBYSTATE_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <optional>

namespace ejk {

/// A program in two. `front` stores matrices as outputs, which are the last sequences of `state`.
struct ProgramsByState {
  tile::ProgramOp front, state;
  /// The sequences of the whole program that the front has, in its order.
  llvm::SmallVector<unsigned> sequencesOfFront;
};

/// The loop over chunks of `program` if it has one loop alone, otherwise null.
mlir::scf::ForOp loopOverChunks(tile::ProgramOp program);

/// Creates both programs before `program`, which stays. Nothing where a chunk has less than two
/// matmuls of its rows alone, or none that its state waits for.
std::optional<ProgramsByState> splitByState(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_SPLITBYSTATE_H
