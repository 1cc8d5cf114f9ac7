//===- TileLayout.h - where each thread's part of a tile lies ----*- C++ -*-===//
#ifndef EJK_LOWERING_TILELAYOUT_H
#define EJK_LOWERING_TILELAYOUT_H

#include "dialect/tile/Tile.h"
#include "lowering/KernelBuilder.h"

namespace ejk {

/// On every op of a laid-out program that makes tiles: a layout per result.
constexpr llvm::StringLiteral kLayoutsAttr = "tile.layouts";
/// On a laid-out program: the warps that work on it.
constexpr llvm::StringLiteral kWarpsAttr = "tile.warps";

/// A rows × columns matrix as the accumulators of `mma.sync`. Warp w works on
/// part (r, c) = (w / columnParts, w mod columnParts); in it, lane 4g + t has
/// of accumulator (m, n) four elements, i = 0 to 3, at
///
///   row    = r · partRows()    + 16 m + 8 (i / 2) + g
///   column = c · partColumns() +  8 n + 2 t + i mod 2
///
/// as number 4 (m · columnTiles() + n) + i of what the thread holds.
struct Fragments {
  int64_t rows, columns, rowParts, columnParts;

  static Fragments of(mlir::Type type, tile::LayoutAttr layout) {
    auto vector = mlir::cast<mlir::VectorType>(type);
    return {vector.getDimSize(0), vector.getDimSize(1), layout.getRowParts(),
            layout.getColumnParts()};
  }
  int64_t partRows() const { return rows / rowParts; }
  int64_t partColumns() const { return columns / columnParts; }
  unsigned rowTiles() const { return partRows() / 16; }
  unsigned columnTiles() const { return partColumns() / 8; }
  unsigned size() const { return 4 * rowTiles() * columnTiles(); }
  unsigned index(unsigned m, unsigned n, unsigned i) const {
    return 4 * (m * columnTiles() + n) + i;
  }
  /// Calls `visit` with each element's number, the number of its row among the
  /// thread's 2 · rowTiles() and of its column among the 2 · columnTiles().
  void forEachElement(llvm::function_ref<void(unsigned, unsigned, unsigned)> visit) const {
    for (unsigned m = 0; m < rowTiles(); ++m)
      for (unsigned n = 0; n < columnTiles(); ++n)
        for (unsigned i = 0; i < 4; ++i)
          visit(index(m, n, i), 2 * m + i / 2, 2 * n + i % 2);
  }
  /// How far a row or column of the thread's is behind its first.
  static int64_t rowOffset(unsigned number) { return 8 * number; }
  static int64_t columnOffset(unsigned number) { return 8 * (number / 2) + number % 2; }
};

/// How many numbers of a vector of `length` a lane has.
inline unsigned lanesSize(int64_t length) { return llvm::divideCeil(length, kWarpSize); }

/// The elements of a vector.
inline int64_t lanesLength(mlir::Type type) {
  return mlir::cast<mlir::VectorType>(type).getDimSize(0);
}

/// Bytes from one row of a tile in shared memory to the next. Rows of a matrix
/// are set 16 bytes apart, of 16-bit elements, or 32, of f32, beyond their own,
/// so that the 8 rows that `ldmatrix` or a fragment's access touches at once
/// fall on different banks: a row's own bytes are a multiple of 32, so that its
/// pitch is an odd multiple of 16, or 32 more than a multiple of 64. Unlike an
/// exclusive-or of addresses this keeps every offset from a thread's first
/// element a constant.
inline unsigned sharedPitch(mlir::Type type) {
  auto vector = mlir::cast<mlir::VectorType>(type);
  unsigned bytes = KernelBuilder::bytesOf(vector.getElementType());
  if (vector.getRank() == 1)
    return bytes;
  return vector.getDimSize(1) * bytes + (bytes == 4 ? 32 : 16);
}
inline unsigned sharedBytes(mlir::Type type) {
  return mlir::cast<mlir::VectorType>(type).getDimSize(0) * sharedPitch(type);
}

/// The layout that an op of a laid-out program, or a loop's argument, gives
/// `value`. Null for what is no tile.
tile::LayoutAttr layoutOf(mlir::Value value);

/// The layout in which matrices (fragments) and vectors (lanes) of `type` are
/// computed by `warps` warps. Null for what is no tile.
tile::LayoutAttr computedLayout(mlir::Type type, unsigned warps);

} // namespace ejk

#endif // EJK_LOWERING_TILELAYOUT_H
