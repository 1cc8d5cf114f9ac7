//===- PrepareTensors.h - every tensor made by one kernel ---------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_PREPARETENSORS_H
#define EJK_LOWERING_HOST_PREPARETENSORS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {

/// Whether a package, and memory between kernels, can hold tensors of `type`.
bool isStorable(mlir::Type type);
constexpr llvm::StringLiteral kStorable = "ranked tensors of f16, bf16, f32, f64, i32 or i64";

/// Whether `op` becomes a kernel, or chooses between two.
bool isKernel(mlir::Operation *op);

/// Makes ops of constants that kernels read and of values that are returned without
/// one that makes them; `copied`: a copy's result to its source. Fails, with an error,
/// where a function returns what cannot be stored.
mlir::LogicalResult prepareTensors(mlir::func::FuncOp function,
                                   llvm::DenseMap<mlir::Value, mlir::Value> &copied);

} // namespace ejk

#endif // EJK_LOWERING_HOST_PREPARETENSORS_H
