//===- DotOperands.h - the factors of a product as it is stored ---*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_DOTOPERANDS_H
#define EJK_LOWERING_EMIT_DOTOPERANDS_H

#include "lowering/emit/TileEmitter.h"

namespace ejk {

/// What is multiplied to get a product as it is stored: the product's own operands or,
/// where its transpose is stored, (lhs · rhs)ᵀ = rhsᵀ · lhsᵀ, its operands' transposes.
struct TileEmitter::Factors {
  Value left, right;
  /// Whether the factor is the operand's transpose.
  bool leftTransposed, rightTransposed;
  /// Of the sums.
  int64_t length;

  /// Whether the rows of a factor in shared memory run across the result: along its
  /// rows, of the left one, or its columns, of the right one.
  bool rowsAcross(const Placed &tile, bool isLeft) const {
    bool transposed = (isLeft ? leftTransposed : rightTransposed) != isTransposed(tile.layout);
    return isLeft != transposed;
  }
};

} // namespace ejk

#endif // EJK_LOWERING_EMIT_DOTOPERANDS_H
