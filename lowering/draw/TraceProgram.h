//===- TraceProgram.h - the ops that warps execute, one by one -----*- C++ -*-===//
#ifndef EJK_LOWERING_DRAW_TRACEPROGRAM_H
#define EJK_LOWERING_DRAW_TRACEPROGRAM_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// One execution of an op; without one, the begin of a chunk.
struct Step {
  mlir::Operation *op = nullptr;
  /// Of an op on a ring, the number of the item.
  int64_t item = 0;
  /// Whether the iteration is an odd one, in which tiles with two places lie in the second.
  bool isOdd = false;
};

/// What a group of warps executes.
struct Trace {
  std::string name;
  llvm::SmallVector<Step> steps;
};

/// What each group of warps of planned `program` executes for a sequence of `chunks` full chunks
/// whose gates all pass their guards. One group has all warps unless the program is partitioned.
llvm::SmallVector<Trace> traceProgram(tile::ProgramOp program, int64_t chunks);

} // namespace ejk

#endif // EJK_LOWERING_DRAW_TRACEPROGRAM_H
