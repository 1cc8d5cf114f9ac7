//===- JamHeads.h - several heads in one block program ----------*- C++ -*-===//
//
// Heads that share their keys and queries load the same rows, and multiply the same scores. A
// program of several adjacent heads does that once. Its rows and slots are those of its heads, one
// after the other: the channels of a row, or the keys of a state.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_PROGRAM_JAMHEADS_H
#define EJK_PASSES_PROGRAM_JAMHEADS_H

#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"

namespace ejk {

/// The heads of a program, and what must hold of others to have several of them in one block.
struct ProgramHeads {
  DimExpr all;
  /// Of rows of vectors that they share: a multiple of a block's heads shares each.
  llvm::SmallVector<DimExpr> shared;
  /// Of numbers, parameters and states, where these have another name: they are as many.
  llvm::SmallVector<DimExpr> same;
  /// The elements of the matrices that a loop over chunks carries for one head.
  int64_t carried = 0;
  /// The most channels beside the heads in a tensor of which each head has its own part: several
  /// heads' parts become one head's.
  int64_t channels = 1;
};

/// The heads of `program`, if they share rows and `jamHeads` can have several of them in one
/// program.
std::optional<ProgramHeads> headsToJam(const ShapeAnalysis &shapes, tile::ProgramOp program);

/// The sum of `output`, rows of vectors that a program's heads add up; null where there is none.
SumHeadsOp sumOverHeads(mlir::Value output);

/// Replaces `program` by one that computes `count` adjacent heads, of sizes as `headsToJam` says.
tile::ProgramOp jamHeads(const ShapeAnalysis &shapes, tile::ProgramOp program, int64_t count);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_JAMHEADS_H
