//===- ChunkDecays.h - cumulative log gates of a chunk ------------*- C++ -*-===//
//
// Let g_t be the sum of a step's log gates along one axis. Sums run in scan order within
// the chunk. A read that comes after the first p decays of its step sees the chunk's
// initial state decayed by e^{R_i},
//
//   R_i = Σ_{t before i} g_t + (the first p gates of step i),
//
// and the addition of step j, after the first p decays of its own step, decayed by
// e^{R_i − W_j}, where
//
//   W_j = Σ_{t before j} g_t + (the first p gates of step j).
//
// From step j to the end of the chunk the state decays by e^{L_j}, L_j = Σ_all g_t − W_j.
//
// A *place* in a step is the number p of decays before it. Sums at all places are computed
// from those at one, the *base place*: after all decays of a step, or before them all.
//
// For a read and an addition at the base place, R_i − W_j = L_j − L_i, too. So a backward
// pass can compute the same cumsums, from the first row on, as the forward pass over the
// same rows.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKDECAYS_H
#define EJK_PASSES_CHUNK_CHUNKDECAYS_H

#include "passes/chunk/TileBuilder.h"
#include <optional>

namespace ejk {

/// The direction of a scan within a chunk, and the base place of an axis: after the decays of a
/// step if `decayFirst`.
struct ScanDirection {
  bool reverse, decayFirst;
  int64_t chunk;
  /// The row of the last step.
  int64_t lastRow() const { return reverse ? 0 : chunk - 1; }
  int64_t firstRow() const { return chunk - 1 - lastRow(); }
};

/// A place in the last step of a chunk. Its row is that of the sequence's last step where the
/// sequence ends in the chunk: after it all gates are zero.
struct LastPlace {
  unsigned place;
  mlir::OpFoldResult row;
};

/// Cumsums of the gates along one axis, as tiles. Each call creates ops at the insertion point of
/// `e`.
class RunningGates {
public:
  /// `gates` has one tile per decay of a step, in order, and is not empty. `finite` says that no
  /// gate is -inf, so that an exclusive cumsum is the inclusive one minus the step's own gate.
  RunningGates(ScanDirection direction, llvm::ArrayRef<mlir::Value> gates, bool finite = false)
      : direction(direction), gates(gates), finite(finite) {}

  /// The base place.
  unsigned base() const { return direction.decayFirst ? gates.size() : 0; }
  /// R or W at `place`.
  mlir::Value upTo(TileBuilder &e, unsigned place) const;
  /// W − M at the base place, where M is the value of W between `row` and the next row. The
  /// backward pass, and a forward pass that reads before it decays, thus get equal values for the
  /// same rows.
  mlir::Value around(TileBuilder &e, int64_t row) const;
  /// W − M at `place`, or M − W, computed from `around`. A scan and the one that derives from it
  /// get equal values for the same rows.
  mlir::Value aroundAt(TileBuilder &e, mlir::Value around, unsigned place, bool negative) const;
  /// The same around the start of each block of rows, in the order of rows: W − A, where A is the
  /// value of the cumsum before the block's first row; around the chunk's first row; and the values
  /// A as rows, the sum over the chunk after them.
  struct Blocks {
    mlir::Value around, fromStart;
    llvm::SmallVector<mlir::Value> starts;
  };
  Blocks inBlocks(TileBuilder &e, int64_t blockRows) const;
  /// M, and the sum over the chunk minus M, computed from `around` of that row.
  mlir::Value startOf(TileBuilder &e, mlir::Value around) const;
  mlir::Value restOf(TileBuilder &e, mlir::Value around) const;
  /// W − M before the chunk's first row and after its last, in the order of rows, with either sign.
  /// All scans over the same rows, forward and backward, compute the same bits.
  llvm::SmallVector<mlir::Value> endsOf(TileBuilder &e, mlir::Value around) const;
  /// L at `place`, as a cumsum of its own.
  mlir::Value toEnd(TileBuilder &e, unsigned place) const;
  /// The sum over the chunk, computed from L at the base place.
  mlir::Value totalOf(TileBuilder &e, mlir::Value toEnd) const;
  /// L at `place`, as a difference of cumsums.
  mlir::Value fromAddToEnd(TileBuilder &e, unsigned place) const;
  /// The sum over the chunk: a row or a scalar.
  mlir::Value total(TileBuilder &e) const;
  /// L at `last`, the greatest where no gate is positive: the last step's own gates from there on.
  mlir::Value afterLast(TileBuilder &e, LastPlace last) const;

private:
  mlir::Value perStep(TileBuilder &e) const;
  /// The sum of some of a step's gates.
  static mlir::Value sumOf(TileBuilder &e, llvm::ArrayRef<mlir::Value> gates);

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
/// a chunk are exact in f32, and remainders, whose sums stay below 1. At the base place, cumsums
/// run down the rows in either direction of the scan. With `binary`, sums are of binary logarithms,
/// because hardware computes powers of two.
class HeadDecays {
public:
  HeadDecays(TileBuilder &e, ScanDirection direction, llvm::ArrayRef<mlir::Value> gates,
             mlir::Type operandType, bool binary);

  /// Whether the `scale` arguments below may differ from 1. They are then added to the exponents.
  bool takesScale() const { return binary; }
  /// scale · e^{R_i} of reads at place `read`.
  mlir::Value fromStart(TileBuilder &e, unsigned read, double scale = 1) const;
  /// scale · e^{R_i − W_j} for j before i, with `inclusive` also for j = i, and 0 elsewhere, of
  /// reads at place `read` and additions at place `add`. Rows are the later of the two steps and
  /// columns the earlier one; in a backward pass, i is the earlier one.
  mlir::Value between(TileBuilder &e, unsigned read, unsigned add, bool inclusive,
                      double scale = 1) const;
  /// e^{L_j} of additions at place `add`, or that / `afterLast` of `last`, if given.
  mlir::Value toEnd(TileBuilder &e, unsigned add, std::optional<LastPlace> last = {}) const;
  /// The exponential of the sum over the chunk, or that / `afterLast` of `last`, if given.
  mlir::Value total(TileBuilder &e, std::optional<LastPlace> last = {}) const;
  /// e^{L_j} of the last step j at `last`.
  mlir::Value afterLast(TileBuilder &e, LastPlace last) const;

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
