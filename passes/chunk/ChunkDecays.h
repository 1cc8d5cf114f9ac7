//===- ChunkDecays.h - cumulative log gates of a chunk ------------*- C++ -*-===//
//
// Let g_t be the sum of a step's log gates along one axis. Sums run in scan order within
// the chunk. A read that comes after the first p decays of its step sees the chunk's
// initial state decayed by e^{R_i},
//
//   R_i = Σ_{t before i} g_t + (the first p gates of step i),
//
// and the addition of step j decayed by e^{R_i − W_j}, where
//
//   W_j = Σ_{t up to j} g_t       if decays come first in a step,
//   W_j = Σ_{t before j} g_t      if they come last.
//
// From step j to the end of the chunk the state decays by e^{L_j}, L_j = Σ_all g_t − W_j.
//
// If R is W, R_i − W_j = L_j − L_i, too. So a backward pass can compute the same cumsums,
// from the first row on, as the forward pass over the same rows.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKDECAYS_H
#define EJK_PASSES_CHUNK_CHUNKDECAYS_H

#include "passes/chunk/TileBuilder.h"
#include <optional>

namespace ejk {

/// The direction of a scan within a chunk, and the position of decays in a step.
struct ScanDirection {
  bool reverse, decayFirst;
  int64_t chunk;
  /// The row of the last step.
  int64_t lastRow() const { return reverse ? 0 : chunk - 1; }
  int64_t firstRow() const { return chunk - 1 - lastRow(); }
};

/// Cumsums of the gates along one axis, as tiles. Each call creates ops at the insertion point of
/// `e`.
class RunningGates {
public:
  /// `gates` has one tile per decay of a step, in order, and is not empty. `finite` says that no
  /// gate is -inf, so that an exclusive cumsum is the inclusive one minus the step's own gate.
  RunningGates(ScanDirection direction, llvm::ArrayRef<mlir::Value> gates, bool finite = false)
      : direction(direction), gates(gates), finite(finite) {}

  /// R, for a read after the first `count` decays of its step.
  mlir::Value atRead(TileBuilder &e, unsigned count) const;
  /// W.
  mlir::Value atAdd(TileBuilder &e) const {
    return atRead(e, direction.decayFirst ? gates.size() : 0);
  }
  /// W − M, where M is the value of W between `row` and the next row. The backward pass, and a
  /// forward pass that reads before it decays, thus get equal values for the same rows.
  mlir::Value around(TileBuilder &e, int64_t row) const;
  /// M, and the sum over the chunk minus M, computed from `around` of that row.
  mlir::Value startOf(TileBuilder &e, mlir::Value around) const;
  mlir::Value restOf(TileBuilder &e, mlir::Value around) const;
  /// Whether R equals W for a read after `count` decays.
  bool isAtAdd(unsigned count) const { return count == (direction.decayFirst ? gates.size() : 0); }
  /// L, as a cumsum of its own.
  mlir::Value toEnd(TileBuilder &e) const;
  /// The sum over the chunk, computed from L.
  mlir::Value totalOf(TileBuilder &e, mlir::Value toEnd) const;
  /// L, as a difference of cumsums.
  mlir::Value fromAddToEnd(TileBuilder &e) const;
  /// The sum over the chunk: a row or a scalar.
  mlir::Value total(TileBuilder &e) const;
  /// L of the last step, the greatest where no gate is positive: its own gates. Decays come last.
  mlir::Value afterLast(TileBuilder &e) const;

private:
  mlir::Value perStep(TileBuilder &e) const;

  ScanDirection direction;
  llvm::SmallVector<mlir::Value> gates;
  bool finite;
};

/// A log gate whose exponential is zero in f32. For matmuls in f32 it is zero also in f64, in which
/// the interpreter computes (passes/NumericRange.h).
double gateFloor(mlir::Type operandType);

/// Decays by gates per head. The decays between steps form a C×C matrix, whatever the number of
/// channels. R_i − W_j is a difference of cumsums, which may be large although the difference is
/// small: for example after one gate of -1000 and 60 gates of -0.01. So gates are first raised to a
/// floor whose exponential is zero. The sums of gates over 64 steps then stay above -2¹³, and those
/// of binary logarithms above -2¹⁴, where the spacing of f32 is 2⁻¹¹ and 2⁻¹⁰: less than the error
/// of rounding to bf16.
///
/// For matmuls in f32, gates are also split into multiples of 2⁻⁷, whose sums and differences over
/// a chunk are exact in f32, and remainders, whose sums stay below 1. If reads are at W, cumsums
/// run down the rows in either direction of the scan. With `binary`, sums are of binary logarithms,
/// because hardware computes powers of two.
class HeadDecays {
public:
  HeadDecays(TileBuilder &e, ScanDirection direction, llvm::ArrayRef<mlir::Value> gates,
             mlir::Type operandType, bool binary);

  /// Whether the `scale` arguments below may differ from 1. They are then added to the exponents.
  bool takesScale() const { return binary; }
  /// scale · e^{R_i}.
  mlir::Value fromStart(TileBuilder &e, unsigned count, double scale = 1) const;
  /// scale · e^{R_i − W_j} for j before i, with `inclusive` also for j = i, and 0 elsewhere. Rows
  /// are the later of the two steps and columns the earlier one; in a backward pass, i is the
  /// earlier one.
  mlir::Value between(TileBuilder &e, unsigned count, bool inclusive, double scale = 1) const;
  /// e^{L_j}, or e^{L_j} / `afterLast` if that is taken out.
  mlir::Value toEnd(TileBuilder &e, bool lessLast = false) const;
  /// The exponential of the sum over the chunk, or that / `afterLast`.
  mlir::Value total(TileBuilder &e, bool lessLast = false) const;
  /// e^{L_j} of the last step j. Decays come last.
  mlir::Value afterLast(TileBuilder &e) const;

private:
  /// The sum of `take` over the parts.
  mlir::Value sum(TileBuilder &e, llvm::function_ref<mlir::Value(const RunningGates &)> take) const;
  /// The exponential of a sum; and a sum whose exponential is `scale` times larger.
  mlir::Value exponential(TileBuilder &e, mlir::Value sum) const;
  mlir::Value scaled(TileBuilder &e, mlir::Value sum, double scale) const;

  ScanDirection direction;
  bool binary;
  /// The coarse and the fine part, for exact sums.
  llvm::SmallVector<RunningGates, 2> parts;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKDECAYS_H
