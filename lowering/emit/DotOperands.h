//===- DotOperands.h - A and B of a matmul in stored orientation --*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_DOTOPERANDS_H
#define EJK_LOWERING_EMIT_DOTOPERANDS_H

#include "lowering/emit/TileEmitter.h"

namespace ejk {

/// Operands A and B of the matmul that computes the result as it is stored. If the result is stored
/// transposed, they are the transposes of the op's operands in reverse order, because (lhs · rhs)ᵀ
/// = rhsᵀ · lhsᵀ.
struct TileEmitter::DotOperands {
  Value left, right;
  /// Whether A or B is the transpose of its value.
  bool leftTransposed, rightTransposed;
  /// The first step of the matmul along K, and the one after its last.
  int64_t first, last;
  /// The rows, or if the result is stored transposed the columns, that get a sum; empty if all do.
  llvm::ArrayRef<int64_t> rows = {}, columns = {};

  /// Whether an operand's rows in shared memory follow one another along M (for A) or N (for B), so
  /// that each lies along K. If not, they follow one another along K.
  bool rowsAcross(const Placed &tile, bool isLeft) const {
    bool transposed = (isLeft ? leftTransposed : rightTransposed) != isTransposed(tile.layout);
    return isLeft != transposed;
  }
};

} // namespace ejk

#endif // EJK_LOWERING_EMIT_DOTOPERANDS_H
