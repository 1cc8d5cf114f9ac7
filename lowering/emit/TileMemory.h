//===- TileMemory.h - tiles in global memory ----------------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEMEMORY_H
#define EJK_LOWERING_EMIT_TILEMEMORY_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

/// Where a tile lies in global memory: its row i and column j at element
/// (firstRow + i)·stride + firstColumn + j. Null, or none, is without limit.
/// A vector lies along the rows' only column, or along the only row.
struct TileGrid {
  mlir::Value firstRow, rowLimit, stride, firstColumn; // i64
  std::optional<int64_t> columnLimit;
  /// Whether elements 2j and 2j+1 of a row are aligned to two elements' bytes.
  bool paired = false;
  bool vectorIsRow = false;

  /// All of a tensor of `type`, which has no limits.
  static TileGrid whole(KernelBuilder &b, mlir::VectorType type) {
    int64_t columns = type.getShape().back();
    return {b.i64(0),           {}, b.i64(columns), b.i64(0), std::nullopt, columns % 2 == 0,
            type.getRank() == 1};
  }
};

/// Rows of a tile that a sequence has: `count` from `begin` on. i32.
struct RowSpan {
  mlir::Value begin, count;
  mlir::Value has(KernelBuilder &b, mlir::Value row) const;
};

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEMEMORY_H
