//===- TensorSums.h - reductions between scans ---------------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_TENSORSUMS_H
#define EJK_PASSES_SCAN_TENSORSUMS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace ejk {
/// `x` summed over dimension `dim`, in f32.
mlir::Value sumOver(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned dim);
/// The maximum of `x` over dimension `dim`; NaN if an element is NaN.
mlir::Value maxOver(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned dim);
/// Whether `op` is a sum over dimension `dim`.
bool isSumOver(mlir::linalg::GenericOp op, unsigned dim);
/// `x ⊙ y`, of one shape, summed over dimension `dim`, in f32.
mlir::Value sumOfProducts(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value y,
                          unsigned dim);
/// `x` summed over the heads, in dimension `dim`, that share a head of `like`.
mlir::Value sumHeads(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned dim,
                     mlir::Value like, mlir::Type element);
/// `x` cast to the static sizes of `like`.
mlir::Value castLike(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value like);
/// `x`, [N,H,channels…], summed to the shape of parameter `like`, whose step value has rank
/// `channels`: over N, over heads that share one of its heads, and over channels if a scalar's
/// gradient is per channel.
mlir::Value sumToParameter(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value like,
                           int64_t channels, mlir::Type element);
/// Whether two tensors are known to have equal sizes in dimension `dim`: by their types, or, for
/// arguments, by the attributes of ejk-describe-interface.
bool haveSameSize(mlir::Value a, mlir::Value b, unsigned dim);
} // namespace ejk

#endif // EJK_PASSES_SCAN_TENSORSUMS_H
