//===- TileLayout.h - layouts of tiles over threads and memory ----*- C++ -*-===//
//
// Says which elements of a tile each thread has, and where an element lies in shared
// memory. `Fragments` is the layout of mma.sync and wgmma accumulators. Matmul operands
// in shared memory are 128-byte-swizzled (layout `swizzled`) if wgmma reads them.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_TILELAYOUT_H
#define EJK_LOWERING_LAYOUT_TILELAYOUT_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

constexpr int64_t kWarpgroup = 4;
/// The number of bf16 terms that an f32 is split into when tensor cores sum it.
constexpr unsigned kSplitTerms = 3;
/// The 16-bit columns, and the bytes, of a row of a 128-byte-swizzled block.
constexpr int64_t kSwizzledColumns = 64, kSwizzledPitch = 128;

/// Checks that tensor cores multiply what `dot` multiplies.
llvm::LogicalResult checkMatmulTypes(tile::DotOp dot);

/// Whether `program` has matmuls of f32 operands in bf16 terms. Single warps compute them: each
/// splits what it loads from shared memory.
bool hasF32Matmuls(tile::ProgramOp program);

/// The elements of the largest tile of `program`.
int64_t largestMatrix(tile::ProgramOp program);

/// Whether most matmuls of a laid-out `block` run on single warps (`mma.sync`), with all operands
/// in registers.
bool usesWarpMatmuls(mlir::Block &block);

inline bool isFragments(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::fragments ||
                    layout.getKind() == tile::LayoutKind::transposed_fragments);
}
inline bool isSwizzled(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::swizzled ||
                    layout.getKind() == tile::LayoutKind::transposed_swizzled);
}
/// Whether a tile is a vector: one element for each row.
inline bool isVectorTile(mlir::Type tile) {
  return mlir::cast<mlir::VectorType>(tile).getRank() == 1;
}
/// Whether a tile of f32 lies in shared memory as TMA writes it.
inline bool isSwizzledWords(tile::LayoutAttr layout) {
  return layout && layout.getKind() == tile::LayoutKind::swizzled_words;
}
/// Whether rows of a tile lie in shared memory in blocks of 128 bytes.
inline bool isInBlocks(tile::LayoutAttr layout) {
  return isSwizzled(layout) || isSwizzledWords(layout);
}
/// Whether a tile lies in shared memory.
inline bool isInShared(tile::LayoutAttr layout) {
  return isInBlocks(layout) || (layout && layout.getKind() == tile::LayoutKind::shared);
}
/// Whether the tile is stored transposed.
inline bool isTransposed(tile::LayoutAttr layout) {
  return layout && (layout.getKind() == tile::LayoutKind::transposed_fragments ||
                    layout.getKind() == tile::LayoutKind::transposed_swizzled);
}

/// Whether a vector has the layout of fragments' rows: a slice layout in Triton's terms.
inline bool isRows(tile::LayoutAttr layout) {
  return layout && layout.getKind() == tile::LayoutKind::rows;
}

/// Whether a matrix with layout `own` can be operand A, in registers, of a matmul with layout
/// `result`: itself or, if `transposed`, its transpose. Each warp must have all elements of the
/// rows that it computes.
inline bool isRegisterOperand(tile::LayoutAttr own, bool transposed, tile::LayoutAttr result) {
  return isFragments(own) && isTransposed(own) == transposed &&
         own.getRowParts() == result.getRowParts() && own.getColumnParts() == 1;
}

/// The same for the operand `use` of a matmul.
bool isRegisterOperand(mlir::OpOperand &use, tile::LayoutAttr own, tile::LayoutAttr result);

/// A matrix, or, if `transposed`, the transpose of one, as accumulators of `mma.sync`. Rows
/// and columns are those of the stored matrix. Warp w has part (r, c) = (w mod rowParts,
/// w / rowParts mod columnParts). In that part, lane 4g + t has four elements, i = 0 to 3,
/// of accumulator (m, n), at
///
///   row    = 16 (m · rowParts + r) + 8 (i / 2) + g
///   column = c · partColumns()     + 8 n + 2 t + i mod 2
///
/// Such an element is number 4 (m · columnTiles() + n) + i among the thread's elements.
struct Fragments {
  int64_t rows, columns, rowParts, columnParts;
  bool transposed = false;

  static Fragments of(mlir::Type type, tile::LayoutAttr layout) {
    auto vector = mlir::cast<mlir::VectorType>(type);
    bool transposed = isTransposed(layout);
    return {vector.getDimSize(transposed), vector.getDimSize(!transposed), layout.getRowParts(),
            layout.getColumnParts(), transposed};
  }
  /// Fragments of which a vector in `rows` layout is a column.
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
  /// Whether the matrix's `dim` runs along stored rows (0) or columns (1).
  unsigned storedDim(unsigned dim) const { return dim ^ unsigned(transposed); }
  /// Calls `visit` with the number of each element, of its row among the thread's 2 · rowTiles()
  /// and of its column among the 2 · columnTiles().
  void forEachElement(llvm::function_ref<void(unsigned, unsigned, unsigned)> visit) const {
    for (unsigned m = 0; m < rowTiles(); ++m)
      for (unsigned n = 0; n < columnTiles(); ++n)
        for (unsigned i = 0; i < 4; ++i)
          visit(index(m, n, i), 2 * m + i / 2, 2 * n + i % 2);
  }
  /// The distance of a thread's row or column from its first.
  int64_t rowOffset(unsigned number) const {
    return 16 * rowParts * (number / 2) + 8 * (number % 2);
  }
  static int64_t columnOffset(unsigned number) { return 8 * (number / 2) + number % 2; }
};

/// A thread's elements of an accumulator in the order in which a matmul in tf32 takes them as
/// operand A: the even columns as its columns 0 to 3, the odd ones as 4 to 7.
constexpr unsigned kSlotsInTf32[] = {0, 2, 1, 3};

/// The number of elements that a lane has of a vector in `lanes` layout.
inline unsigned lanesSize(int64_t length) { return llvm::divideCeil(length, kWarpSize); }

/// The elements of a vector.
inline int64_t lanesLength(mlir::Type type) {
  return mlir::cast<mlir::VectorType>(type).getDimSize(0);
}

/// Bytes between rows of an unswizzled tile in shared memory. A matrix row is padded by 16 bytes
/// for 16-bit elements, or by 32 for f32. The 8 rows that `ldmatrix` or a fragment access touches
/// at once then fall on different banks. For 16 bits a row is a multiple of 32 bytes, so the pitch
/// is an odd multiple of 16. For f32 a row is a multiple of 64 bytes, so the pitch is 32 more.
/// Unlike an xor swizzle, padding keeps every offset from a thread's first element constant.
inline unsigned sharedPitch(mlir::Type type) {
  auto vector = mlir::cast<mlir::VectorType>(type);
  unsigned bytes = KernelBuilder::bytesOf(vector.getElementType());
  if (vector.getRank() == 1)
    return bytes;
  return vector.getDimSize(1) * bytes + (bytes == 4 ? 32 : 16);
}
/// Bytes of a tile in shared memory.
inline unsigned sharedBytes(mlir::Type type, tile::LayoutAttr layout) {
  auto vector = mlir::cast<mlir::VectorType>(type);
  if (isInBlocks(layout))
    return vector.getNumElements() * KernelBuilder::bytesOf(vector.getElementType());
  return vector.getDimSize(0) * sharedPitch(type);
}
/// Alignment of a tile in shared memory. A swizzled tile must start where the pattern of 8 rows
/// does.
inline unsigned sharedAlignment(tile::LayoutAttr layout) {
  return isInBlocks(layout) ? 8 * kSwizzledPitch : 128;
}
/// The columns of a 128-byte block of a swizzled tile, or of TMA.
inline int64_t blockColumns(mlir::Type element) {
  return kSwizzledPitch / KernelBuilder::bytesOf(element);
}
/// Whether parts of so many columns are whole 64-column blocks, or lie within one. `wgmma` requires
/// it of an operand whose rows in shared memory lie along M or N.
inline bool endsSwizzled(int64_t columns) {
  return columns % kSwizzledColumns == 0 || kSwizzledColumns % columns == 0;
}
/// Whether a matrix of f32 can be 128-byte-swizzled, as operand B of a matmul in tf32. Of each 8
/// columns, the even ones come first, then the odd ones: a thread's accumulators 2 t and 2 t + 1
/// are then what operand A has of columns t and t + 4.
inline bool fitsSwizzledTf32(mlir::Type type, bool transposed = false) {
  auto vector = mlir::dyn_cast<mlir::VectorType>(type);
  return vector && vector.getRank() == 2 && vector.getElementType().isF32() &&
         vector.getDimSize(!transposed) % (kSwizzledPitch / 4) == 0 &&
         vector.getDimSize(transposed) % 8 == 0;
}
/// Whether a matrix of f32 can lie in shared memory as TMA writes it.
inline bool fitsSwizzledWords(mlir::Type type) { return fitsSwizzledTf32(type); }
/// Whether `op` is one of those of `arith` and `math`, or rounds, so that threads compute each
/// element of its result by itself, or it is a constant.
bool isTileArithmetic(mlir::Operation *op);
/// Whether some matmul in tf32 takes `value`.
bool isTf32Operand(mlir::Value value);
/// Whether a matrix of `type`, or its transpose, can be 128-byte-swizzled.
inline bool fitsSwizzled(mlir::Type type, bool transposed = false) {
  auto vector = mlir::dyn_cast<mlir::VectorType>(type);
  return vector && vector.getRank() == 2 && vector.getElementType().getIntOrFloatBitWidth() == 16 &&
         vector.getDimSize(!transposed) % kSwizzledColumns == 0 &&
         vector.getDimSize(transposed) % 8 == 0;
}

/// How many elements of a tile a thread has in registers; 0 if the tile lies in shared memory.
unsigned elementsOfThread(mlir::Type type, tile::LayoutAttr layout);

/// The layout of `value` in a laid-out program; null if it is no tile.
tile::LayoutAttr layoutOf(mlir::Value value);

/// The layout in which `mma.sync` computes tiles of `type` on `warps` warps: fragments for a
/// matrix, lanes for a vector. Null for other types.
tile::LayoutAttr computedLayout(mlir::Type type, unsigned warps);

/// The layout in which `wgmma` computes a matrix or its transpose. Warpgroups divide the rows by 64
/// first and then the columns. If the rows are no multiple of 64, the result is that of
/// computedLayout.
tile::LayoutAttr warpgroupLayout(mlir::Type type, unsigned warps, bool transposed);

/// Whether warpgroups compute the cumsum along the rows of a 16-bit matrix as a matmul with a
/// triangle. If the matrix is transposed, it is operand A and may come from registers; otherwise
/// the triangle is operand A.
bool hasWarpgroupSums(mlir::Type type, tile::LayoutAttr layout);

/// The cumsums whose operand `reader`, a conversion, loads from shared memory to be widened. They
/// read it from there themselves.
llvm::SmallVector<tile::CumsumOp> cumsumsReadBy(mlir::Operation *reader);
/// Whether a cumsum sums `tile`, or what elementwise ops make of it and of no other matrix: then it
/// has gates.
bool isOfGates(mlir::Value tile);

/// Whether `tile` is operand B of matmuls in tf32, whose columns are not in order.
bool isSwizzledF32(mlir::Value tile);
/// Whether threads store what they have in layout `own` as such a tile, of layout `swizzled`: in its own
/// orientation.
inline bool canBeSwizzledF32(tile::LayoutAttr own, tile::LayoutAttr swizzled) {
  return own.getKind() == tile::LayoutKind::uniform ||
         (isFragments(own) && isTransposed(own) == isTransposed(swizzled));
}

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_TILELAYOUT_H
