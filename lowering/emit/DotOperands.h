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

  /// Whether the rows in shared memory of an operand run across the result: along M for A, along N
  /// for B. If not, they run along K.
  bool rowsAcross(const Placed &tile, bool isLeft) const {
    bool transposed = (isLeft ? leftTransposed : rightTransposed) != isTransposed(tile.layout);
    return isLeft != transposed;
  }
};

} // namespace ejk

#endif // EJK_LOWERING_EMIT_DOTOPERANDS_H
