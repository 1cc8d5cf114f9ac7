//===- TileMemory.h - tiles in global memory ----------------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEMEMORY_H
#define EJK_LOWERING_EMIT_TILEMEMORY_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

/// The position of a tile in global memory: element (i, j) is number (firstRow + i)·stride +
/// firstColumn + j. A null limit means no limit. A vector is a column, or a row if `vectorIsRow`.
struct TileGrid {
  mlir::Value firstRow, rowLimit, stride, firstColumn; // i64
  std::optional<int64_t> columnLimit;
  /// Whether elements 2j and 2j+1 of a row may be accessed together.
  bool paired = false;
  bool vectorIsRow = false;
  /// Where rows of another step lie: those in the tensor are the `tensorRows` rows from `rowBegin` on.
  /// With a halo, the others are at their place from `haloBase` on, `haloStride` apart, those in
  /// the tensor from `tensorBase` on; without one, they do not exist, and `tensorRows` is the
  /// limit.
  mlir::Value rowBegin = {}, tensorRows = {}, tensorBase = {}, haloBase = {}, haloStride = {};

  /// A whole tensor of `type`, without limits.
  static TileGrid whole(KernelBuilder &b, mlir::VectorType type) {
    int64_t columns = type.getShape().back();
    return {b.i64(0),           {}, b.i64(columns), b.i64(0), std::nullopt, columns % 2 == 0,
            type.getRank() == 1};
  }
};

/// The rows of a tile that exist in the sequence: `count` rows from `begin` on. i32.
struct RowSpan {
  mlir::Value begin, count;
  mlir::Value has(KernelBuilder &b, mlir::Value row) const;
};

/// Whether channels `first` to `first` + `count` may exceed `channels`.
bool mayReachBeyond(mlir::Value first, int64_t count, int64_t channels);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEMEMORY_H
