//===- RowPlan.h - distribution of rows over threads, without states -*- C++ -*-===//
//
// A scan whose steps read no state has a function of each row: a short convolution, a norm, a gate.
// Rows need not be computed one after the other. A few lanes of a warp have a row, each lane `width`
// channels side by side of it, or several such units. A group of lanes computes `rows` rows in
// succession, so that rows that several of them read by shifts are loaded once.
//
//   thread = group·lanes + laneOfRow,   channel = (unit·lanes + laneOfRow)·width + i
//   row = (round·groups + group)·rows + j
//
// A row of one number has no channels to divide. There the lanes have successive heads, whose
// numbers lie side by side in memory:
//
//   head = block·heads + laneOfRow
//
// Sums over channels are shuffles. What such a scan may carry are sums over rows of vectors or
// numbers, as of the gradients of parameters. Each group adds up those of its own rows; at the end the
// block adds up its groups', always in the same order.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_STEP_ROWPLAN_H
#define EJK_LOWERING_STEP_ROWPLAN_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

struct RowPlan {
  int64_t channels = 1;
  /// Channels of a unit, units of a lane, lanes of a row, rows of a group at a time.
  unsigned width = 1, units = 1, lanes = 1, rows = 1;
  unsigned warps = 1;
  /// The heads of a block: as many as lanes where rows are numbers, else one.
  unsigned heads = 1;

  /// Whether it carries sums.
  bool sums = false;

  unsigned groups() const { return warps * 32 / lanes; }
  /// Channels with those that the last lanes have beyond the row's.
  int64_t paddedChannels() const { return int64_t(width) * lanes * units; }
  bool isPadded() const { return heads == 1 && paddedChannels() != channels; }

  /// The area in which warps add up what they carry.
  unsigned exchangeFloats() const { return sums ? warps * unsigned(paddedChannels()) : 0; }

  /// The plan of `scan`; null if its steps read a state, or have an op that needs their order.
  static std::optional<RowPlan> of(ScanOp scan);
  /// What a step adds to the `i`-th state.
  static mlir::Value addedTo(ScanOp scan, unsigned i);
};

} // namespace ejk

#endif // EJK_LOWERING_STEP_ROWPLAN_H
