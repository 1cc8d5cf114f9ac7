//===- TileLayout.h - where each thread's part of a tile lies ----*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_TILELAYOUT_H
#define EJK_LOWERING_LAYOUT_TILELAYOUT_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

constexpr int64_t kWarpgroup = 4;
/// Numbers of 16 bits that an f32 is the sum of, where tensor cores add it up.
constexpr unsigned kSumPieces = 3;
/// Columns, of 16 bits each, and bytes of a panel's row.
constexpr int64_t kPanelColumns = 64, kPanelPitch = 128;

/// Whether most products of a laid-out `block` are taken by one warp each (`mma.sync`), with all
/// factors in registers.
bool multipliesByWarps(mlir::Block &block);

inline bool isFragments(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::fragments ||
                    layout.getKind() == tile::LayoutKind::transposed_fragments);
}
inline bool isPanels(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::panels ||
                    layout.getKind() == tile::LayoutKind::transposed_panels);
}
/// Whether a tile has one number of each row.
inline bool isVectorTile(mlir::Type tile) {
  return mlir::cast<mlir::VectorType>(tile).getRank() == 1;
}
/// Whether a tile lies in shared memory.
inline bool isInShared(tile::LayoutAttr layout) {
  return isPanels(layout) || (layout && layout.getKind() == tile::LayoutKind::shared);
}
/// Whether what is stored is the matrix's transpose.
inline bool isTransposed(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::transposed_fragments ||
                    layout.getKind() == tile::LayoutKind::transposed_panels);
}

/// Whether a vector lies as the rows of fragments do.
inline bool isRows(tile::LayoutAttr layout) {
  return layout && layout.getKind() == tile::LayoutKind::rows;
}

/// Whether a matrix laid out as `own` can be the left factor of a product laid out as
/// `result` straight from registers: itself or, `transposed`, its transpose. Each warp
/// must have all of the rows that it makes.
inline bool isLeftFactor(tile::LayoutAttr own, bool transposed, tile::LayoutAttr result) {
  return isFragments(own) && isTransposed(own) == transposed &&
         own.getRowParts() == result.getRowParts() && own.getColumnParts() == 1;
}

/// Whether the factor that `use` is of a product laid out as `result` could be that, laid out as
/// `own`.
bool isLeftFactor(mlir::OpOperand &use, tile::LayoutAttr own, tile::LayoutAttr result);

/// A matrix, or, `transposed`, the transpose of one, as accumulators of `mma.sync`.
/// Rows and columns are those of what is stored. Warp w works on part
/// (r, c) = (w mod rowParts, w / rowParts mod columnParts); in it, lane 4g + t has
/// of accumulator (m, n) four elements, i = 0 to 3, at
///
///   row    = 16 (m · rowParts + r) + 8 (i / 2) + g
///   column = c · partColumns()     + 8 n + 2 t + i mod 2
///
/// as number 4 (m · columnTiles() + n) + i of what the thread holds.
struct Fragments {
  int64_t rows, columns, rowParts, columnParts;
  bool transposed = false;

  static Fragments of(mlir::Type type, tile::LayoutAttr layout) {
    auto vector = mlir::cast<mlir::VectorType>(type);
    bool transposed = isTransposed(layout);
    return {vector.getDimSize(transposed), vector.getDimSize(!transposed), layout.getRowParts(),
            layout.getColumnParts(), transposed};
  }
  /// Of which a vector in `rows` is a column.
  static Fragments ofRows(mlir::Type vector, tile::LayoutAttr layout) {
    return {mlir::cast<mlir::VectorType>(vector).getDimSize(0), 16, layout.getRowParts(), 1};
  }
  int64_t partColumns() const { return columns / columnParts; }
  unsigned rowTiles() const { return rows / rowParts / 16; }
  unsigned columnTiles() const { return partColumns() / 8; }
  unsigned size() const { return 4 * rowTiles() * columnTiles(); }
  unsigned index(unsigned m, unsigned n, unsigned i) const {
    return 4 * (m * columnTiles() + n) + i;
  }
  /// Which of what is stored, rows (0) or columns (1), runs along the matrix's `dim`.
  unsigned storedDim(unsigned dim) const { return dim ^ unsigned(transposed); }
  /// Calls `visit` with each element's number, the number of its row among the
  /// thread's 2 · rowTiles() and of its column among the 2 · columnTiles().
  void forEachElement(llvm::function_ref<void(unsigned, unsigned, unsigned)> visit) const {
    for (unsigned m = 0; m < rowTiles(); ++m)
      for (unsigned n = 0; n < columnTiles(); ++n)
        for (unsigned i = 0; i < 4; ++i)
          visit(index(m, n, i), 2 * m + i / 2, 2 * n + i % 2);
  }
  /// How far a row or column of the thread's is behind its first.
  int64_t rowOffset(unsigned number) const {
    return 16 * rowParts * (number / 2) + 8 * (number % 2);
  }
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
/// The bytes of a tile in shared memory, in rows or in panels.
inline unsigned sharedBytes(mlir::Type type, tile::LayoutAttr layout) {
  auto vector = mlir::cast<mlir::VectorType>(type);
  if (isPanels(layout))
    return vector.getNumElements() * 2;
  return vector.getDimSize(0) * sharedPitch(type);
}
/// Where a tile in shared memory may start: panels where the pattern of their rows does.
inline unsigned sharedAlignment(tile::LayoutAttr layout) {
  return isPanels(layout) ? 8 * kPanelPitch : 128;
}
/// Whether warps' parts of so many columns are whole panels or in one each, as those that
/// `wgmma` finds across the rows of a factor must be.
inline bool endsWithPanels(int64_t columns) {
  return columns % kPanelColumns == 0 || kPanelColumns % columns == 0;
}
/// Whether a matrix of `type`, or its transpose, can lie in panels.
inline bool fitsPanels(mlir::Type type, bool transposed = false) {
  auto vector = mlir::dyn_cast<mlir::VectorType>(type);
  return vector && vector.getRank() == 2 && vector.getElementType().getIntOrFloatBitWidth() == 16 &&
         vector.getDimSize(!transposed) % kPanelColumns == 0 &&
         vector.getDimSize(transposed) % 8 == 0;
}


/// The layout that an op of a laid-out program, or a loop's argument, gives
/// `value`. Null for what is no tile.
tile::LayoutAttr layoutOf(mlir::Value value);

/// The layout in which matrices (fragments) and vectors (lanes) of `type` are
/// computed by `warps` warps with `mma.sync`. Null for what is no tile.
tile::LayoutAttr computedLayout(mlir::Type type, unsigned warps);

/// A matrix's, or its transpose's, where `wgmma` is to make it: groups of four warps
/// one below the other as far as 64 rows go, and side by side beyond. As computedLayout
/// where it has no 64 rows.
tile::LayoutAttr warpgroupLayout(mlir::Type type, unsigned warps, bool transposed);

/// Whether groups of four warps take the running sums down the rows of a matrix of `type` in
/// `layout`, of numbers of 16 bits, as a product with a triangle. Transposed, its left factor are
/// the numbers, which may come straight from registers; else the triangle is.
bool hasWarpgroupSums(mlir::Type type, tile::LayoutAttr layout);

/// The running sums of what `reader`, a conversion, brings from shared memory to registers to be
/// widened: they take it from where it lies.
llvm::SmallVector<tile::CumsumOp> sumsOfWhatIsRead(mlir::Operation *reader);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_TILELAYOUT_H
