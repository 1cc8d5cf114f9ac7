//===- Searches.h - what values are computed from, each met once -*- C++ -*-===//
//
// A step may use one value in many ops, so that there are more paths than a program can follow.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_SEARCHES_H
#define EJK_DIALECT_EJK_SEARCHES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace ejk {

/// What a search makes of a value: it ends, leaves the value out, or goes on.
enum class Met { wanted, nothing, more };

/// Whether `judge` meets what is wanted among `start` and the values that it is computed from. It
/// goes on at the operands of the value's op.
template <typename Judge> bool meetsAmongOperands(mlir::Value start, Judge judge) {
  llvm::SmallVector<mlir::Value> open = {start};
  llvm::DenseSet<mlir::Value> seen = {start};
  while (!open.empty()) {
    mlir::Value value = open.pop_back_val();
    Met met = judge(value);
    if (met == Met::wanted)
      return true;
    if (met == Met::more)
      for (mlir::Value operand : value.getDefiningOp()->getOperands())
        if (seen.insert(operand).second)
          open.push_back(operand);
  }
  return false;
}

/// The same among the uses of `start` and of what is computed from it. It goes on at the uses of
/// the only result of a use's op.
template <typename Judge> bool meetsAmongUses(mlir::Value start, Judge judge) {
  llvm::SmallVector<mlir::Value> open = {start};
  llvm::DenseSet<mlir::Value> seen = {start};
  while (!open.empty())
    for (mlir::OpOperand &use : open.pop_back_val().getUses()) {
      Met met = judge(use);
      if (met == Met::wanted)
        return true;
      if (met == Met::more && seen.insert(use.getOwner()->getResult(0)).second)
        open.push_back(use.getOwner()->getResult(0));
    }
  return false;
}

} // namespace ejk

#endif // EJK_DIALECT_EJK_SEARCHES_H
