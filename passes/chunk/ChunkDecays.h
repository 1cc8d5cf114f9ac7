//===- ChunkDecays.h - cumulative log gates of a chunk ------------*- C++ -*-===//
//
// Of the gates of one axis. With g_t the sum of a step's log gates there, and sums
// taken in the direction of the walk within the chunk, a read that sees the first
// p of its own step's decays sees the entering state decayed by e^{R_i},
//
//   R_i = Σ_{t before i} g_t + (the first p gates of step i),
//
// and what step j adds decayed by e^{R_i − W_j}, where
//
//   W_j = Σ_{t up to j} g_t       where decays come first in a step,
//   W_j = Σ_{t before j} g_t      where they come last.
//
// From step j to the chunk's end it decays by e^{L_j}, L_j = Σ_all g_t − W_j.
//
// Where R is W, R_i − W_j = L_j − L_i, too. So a walk back may take its sums from the first
// row on, as the walk forward of the same rows does, and have the same.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKDECAYS_H
#define EJK_PASSES_CHUNK_CHUNKDECAYS_H

#include "passes/chunk/TileBuilder.h"
#include <optional>

namespace ejk {

/// The direction of a walk and where its decays stand.
struct Walk {
  bool reverse, decayFirst;
  int64_t chunk;
  /// The row of the walk's last step.
  int64_t lastRow() const { return reverse ? 0 : chunk - 1; }
  int64_t firstRow() const { return chunk - 1 - lastRow(); }
};

/// Running sums of the gates along one axis, as tiles. Each call makes its ops
/// anew, where `e` stands.
class RunningGates {
public:
  /// `gates`: one tile per decay of a step, in order; at least one. `finite`: none is -inf, so
  /// that a sum less its own step's is the sum before it.
  RunningGates(Walk walk, llvm::ArrayRef<mlir::Value> gates, bool finite = false)
      : walk(walk), gates(gates), finite(finite) {}

  /// R, for a read that sees the first `count` of its step's decays.
  mlir::Value atRead(TileBuilder &e, unsigned count) const;
  /// W.
  mlir::Value atAdd(TileBuilder &e) const { return atRead(e, walk.decayFirst ? gates.size() : 0); }
  /// W − M, with M the W between `row` and the next one: so a walk back, and one forward that
  /// reads before it decays, have the same of the same rows.
  mlir::Value around(TileBuilder &e, int64_t row) const;
  /// M, and the sum over the chunk less that, from `around` of that row.
  mlir::Value startOf(TileBuilder &e, mlir::Value around) const;
  mlir::Value restOf(TileBuilder &e, mlir::Value around) const;
  /// Whether R, for a read that sees `count` decays, is W.
  bool isAtAdd(unsigned count) const { return count == (walk.decayFirst ? gates.size() : 0); }
  /// L, as a sum of its own.
  mlir::Value toEnd(TileBuilder &e) const;
  /// The sum over the chunk, from L.
  mlir::Value totalOf(TileBuilder &e, mlir::Value toEnd) const;
  /// L, as a difference of sums.
  mlir::Value fromAddToEnd(TileBuilder &e) const;
  /// The sum over the chunk: a row, or a number.
  mlir::Value total(TileBuilder &e) const;

private:
  mlir::Value perStep(TileBuilder &e) const;

  Walk walk;
  llvm::SmallVector<mlir::Value> gates;
  bool finite;
};

/// A log gate whose exponential is zero: as f32 has it, or, for products of f32, in f64
/// too, which the interpreter works in; 128 of these stay above -2¹⁷.
double gateFloor(mlir::Type productType);

/// The gates per head. Their decays between two steps are a C×C matrix whatever the
/// channels, but R_i − W_j is a difference of sums that may be large where it is
/// small itself: after one gate of -1000, 60 gates of -0.01. So gates are first
/// raised to a floor whose exponential is zero. One gate's sums over 64 steps then stay above
/// -2¹³, of binary logarithms above -2¹⁴, where f32 has units of 2⁻¹¹ and 2⁻¹⁰: less than what
/// rounding to bf16 may lose. For products of f32, gates are also split into multiples of
/// 2⁻⁷, whose sums and differences over a chunk are exact in f32, and remainders, whose sums
/// stay below 1. Where reads are at W, sums go down the rows whichever way the walk goes. With
/// `binary` they are of binary logarithms: powers of two are what hardware has.
class HeadDecays {
public:
  HeadDecays(TileBuilder &e, Walk walk, llvm::ArrayRef<mlir::Value> gates, mlir::Type productType,
             bool binary);

  /// Whether `scale` of the following may be another positive number than 1: it then is in the
  /// exponents.
  bool takesScale() const { return binary; }
  /// scale · e^{R_i}.
  mlir::Value fromStart(TileBuilder &e, unsigned count, double scale = 1) const;
  /// scale · e^{R_i − W_j} for j before i, or up to i with `inclusive`, and 0 elsewhere. The later
  /// of the two steps has a row, the earlier a column, which in a walk back is i's.
  mlir::Value between(TileBuilder &e, unsigned count, bool inclusive, double scale = 1) const;
  /// e^{L_j}.
  mlir::Value toEnd(TileBuilder &e) const;
  /// The exponential of the sum over the chunk.
  mlir::Value total(TileBuilder &e) const;

private:
  /// The sum of what `take` takes of each part.
  mlir::Value sum(TileBuilder &e, llvm::function_ref<mlir::Value(const RunningGates &)> take) const;
  /// The exponential of a sum, and what multiplies that by `scale`.
  mlir::Value exponential(TileBuilder &e, mlir::Value sum) const;
  mlir::Value scaled(TileBuilder &e, mlir::Value sum, double scale) const;

  Walk walk;
  bool binary;
  /// Coarse and fine, where they are exact.
  llvm::SmallVector<RunningGates, 2> parts;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKDECAYS_H
