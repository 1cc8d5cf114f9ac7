//===- SplitByState.h - what a chunk has of its rows alone --------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_SPLITBYSTATE_H
#define EJK_PASSES_PROGRAM_SPLITBYSTATE_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <optional>

namespace ejk {

/// A program in two. `front` computes what a chunk has of its rows alone, and stores what `state`
/// uses of it as outputs, which are the last sequences of `state`, and in slots, which are its last
/// saved states.
struct ProgramsByState {
  tile::ProgramOp front, state;
  /// The sequences of the whole program that the front has, in its order.
  llvm::SmallVector<unsigned> sequencesOfFront;
};

/// The loop over chunks of `program` if it has one loop alone, otherwise null.
mlir::scf::ForOp loopOverChunks(tile::ProgramOp program);

/// The two stand for partitions of one program (ejk-partition-warps): a partition hands over whole
/// tiles, but a tensor has no rows past a sequence's end. Creates both before `program`, which
/// stays. In them, vectors that scale a matrix one after the other are multiplied with each other
/// first. Nothing where a chunk has no matmul of its rows alone, or none that its state waits for.
std::optional<ProgramsByState> splitByState(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_SPLITBYSTATE_H
