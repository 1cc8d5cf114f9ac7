//===- DeriveTensorOps.h - derivative of ops between scans --------*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H
#define EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H

#include "mlir/IR/Builders.h"

namespace ejk {
/// Propagates `g`, the cotangent of the only result of `op`, to its operands: applyAdjointRule for
/// whole tensors. Fails with an error at `op` if it has no rule.
mlir::LogicalResult reverseTensorOp(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value g,
                                    llvm::function_ref<bool(mlir::Value)> wants,
                                    llvm::function_ref<void(mlir::Value, mlir::Value)> add);
} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H
