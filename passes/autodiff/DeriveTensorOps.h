//===- DeriveTensorOps.h - ops between scans, differentiated ------*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H
#define EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H

#include "mlir/IR/Builders.h"

namespace ejk {
/// Passes `g`, the cotangent of the one result of `op`, which stands between
/// scans, on to its operands: as applyAdjointRule, for whole tensors. Fails with
/// an error at `op` when it has no rule.
mlir::LogicalResult reverseTensorOp(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value g,
                                    llvm::function_ref<bool(mlir::Value)> wants,
                                    llvm::function_ref<void(mlir::Value, mlir::Value)> add);
} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_DERIVETENSOROPS_H
