//===- TensorSums.h - sums that stand between scans ---------------*- C++ -*-===//
#ifndef EJK_PASSES_TENSORSUMS_H
#define EJK_PASSES_TENSORSUMS_H

#include "mlir/IR/Builders.h"

namespace ejk {
/// `x` summed over dimension `dim`, in f32.
mlir::Value sumOver(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned dim);
/// `x ⊙ y`, of one shape, summed over dimension `dim`, in f32.
mlir::Value sumOfProducts(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value y,
                          unsigned dim);
/// `x` summed over the heads, its dimension `dim`, that share one of `like`'s.
mlir::Value sumHeads(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned dim,
                     mlir::Value like, mlir::Type element);
/// `x` with the static sizes of `like`, which it has.
mlir::Value castLike(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value like);
/// The symbol that ejk-describe-interface gave a size of an argument; empty
/// where there is none.
llvm::StringRef describedSize(mlir::Value tensor, unsigned dim);
} // namespace ejk

#endif // EJK_PASSES_TENSORSUMS_H
