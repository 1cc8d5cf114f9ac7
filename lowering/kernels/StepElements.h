//===- StepElements.h - a step's elementwise ops in a kernel ------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_STEPELEMENTS_H
#define EJK_LOWERING_KERNELS_STEPELEMENTS_H

#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace ejk {
/// The elementwise op `op` of a step, on the values that `operands` maps its operands to, with a
/// result of `type`. Kernels that go step by step compute in f32, so both sides of a cancelling
/// pair are rounded alike by an ordinary multiplication.
inline mlir::Value cloneStepOp(mlir::OpBuilder &b, mlir::Operation *op,
                               const mlir::IRMapping &operands, mlir::Type type) {
  if (auto pair = llvm::dyn_cast<CancellingPairOp>(op))
    return mlir::arith::MulFOp::create(b, op->getLoc(), operands.lookup(pair.getVector()),
                                       operands.lookup(pair.getRead()));
  mlir::IRMapping mapping = operands;
  mlir::Operation *clone = b.clone(*op, mapping);
  clone->getResult(0).setType(type);
  return clone->getResult(0);
}
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_STEPELEMENTS_H
