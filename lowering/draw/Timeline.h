//===- Timeline.h - when the units of a multiprocessor work -------*- C++ -*-===//
#ifndef EJK_LOWERING_DRAW_TIMELINE_H
#define EJK_LOWERING_DRAW_TIMELINE_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// What a part of a timeline shows.
enum class Activity { matmul, exponential, arithmetic, shared, copy, store, barrier, wait, held };

/// From `begin` to before `end`, in cycles.
struct Span {
  int64_t begin, end;
  Activity activity;
  mlir::Operation *op;
};

/// Spans of a unit, of a group of warps or of a ring's stage.
struct Lane {
  std::string name;
  llvm::SmallVector<Span> spans;
};

/// A tile in shared memory, from when it is written to when it is read last.
struct Residence {
  Span span;
  int64_t firstByte, lastByte; // before `lastByte`
};

/// Some chunks of a program in its steady state.
struct Timeline {
  int64_t begin, end, cyclesPerChunk;
  int64_t sharedBytes;
  llvm::SmallVector<Lane> groups, units, rings;
  llvm::SmallVector<Residence> residences;
};

/// Simulates planned `program`, which has no other block beside it, by the estimates of
/// CostModel.h: ops are issued in order, matmuls and copies queue on their units, and waits wait
/// for them. What a device does beside that, such as conflicts of banks and spilled registers, is
/// not in it.
Timeline simulate(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_DRAW_TIMELINE_H
