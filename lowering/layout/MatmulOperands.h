//===- MatmulOperands.h - A and B of a matmul, and who multiplies -*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_MATMULOPERANDS_H
#define EJK_LOWERING_LAYOUT_MATMULOPERANDS_H

#include "dialect/tile/Tile.h"
#include "lowering/layout/TileLayout.h"

namespace ejk {

/// Operands A and B of the matmul that computes the result as it is stored. If the result is stored
/// transposed, they are the transposes of the op's operands in reverse order, because (lhs · rhs)ᵀ
/// = rhsᵀ · lhsᵀ.
struct MatmulOperands {
  mlir::Value left, right;
  /// Whether A or B is the transpose of its value.
  bool leftTransposed, rightTransposed;
  /// The first step of the matmul along K, and the one after its last.
  int64_t first, last;
  /// The rows, or if the result is stored transposed the columns, that get a sum; empty if all do.
  llvm::ArrayRef<int64_t> rows = {}, columns = {};

  static MatmulOperands of(tile::DotOp op);

  /// Whether an operand's rows in shared memory follow one another along M (for A) or N (for B), so
  /// that each lies along K. If not, they follow one another along K.
  bool rowsAcross(tile::LayoutAttr layout, bool isLeft) const {
    bool transposed = (isLeft ? leftTransposed : rightTransposed) != isTransposed(layout);
    return isLeft != transposed;
  }
};

/// Whether warpgroups compute `op` by `wgmma`, in a program that is laid out for them. Single warps
/// compute the other matmuls.
bool isByWarpgroups(tile::DotOp op);
/// What reads a tile in shared memory: threads, element by element or as operands of `mma.sync`, or else
/// `wgmma` and TMA stores, to which only a fence shows what threads wrote.
enum class Readers { threads, warpMatmuls, units };
Readers readersOf(mlir::Value tile);

/// The 16-bit type of the terms of a cumsum's matrix.
mlir::Type summedType(tile::CumsumOp op);
/// Whether the operand of `op` was loaded from shared memory to be widened. Tensor cores then read
/// it there: returns that tile, or null.
mlir::Value summedInShared(tile::CumsumOp op);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_MATMULOPERANDS_H
