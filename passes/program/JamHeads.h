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

/// The heads that a program's states and rows have, and the fewer ones of what its heads share.
struct ProgramHeads {
  DimExpr all;
  llvm::SmallVector<DimExpr> shared;
  /// The elements of the matrices that a loop over chunks carries for one head.
  int64_t carried = 0;
};

/// The heads of `program`, if they share rows and `jamHeads` can have several of them in one
/// program.
std::optional<ProgramHeads> headsToJam(const ShapeAnalysis &shapes, tile::ProgramOp program);

/// Replaces `program` by one that computes `count` adjacent heads, which share what has fewer heads
/// than they are. `count` divides the heads that share it.
tile::ProgramOp jamHeads(const ShapeAnalysis &shapes, tile::ProgramOp program, int64_t count);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_JAMHEADS_H
