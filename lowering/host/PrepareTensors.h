//===- PrepareTensors.h - a kernel for every tensor ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_PREPARETENSORS_H
#define EJK_LOWERING_HOST_PREPARETENSORS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {

/// Whether packages, and memory between kernels, support tensors of `type`.
bool isStorable(mlir::Type type);
constexpr llvm::StringLiteral kStorable = "ranked tensors of f16, bf16, f32, f64, i32 or i64";

/// Whether `op` becomes a kernel, or chooses between two results.
bool isKernel(mlir::Operation *op);

/// Whether `program`, which starts from another's results, skips all heads.
bool skipsAll(tile::ProgramOp program);

/// Whether `tensor` is zeros that `op`, over segments, starts from, or says that `op` skips no
/// heads or all. Its kernel takes a null pointer for it.
bool isNullStart(mlir::Operation *op, mlir::Value tensor);

/// Adds ops that write constants that kernels read, and copies of returned values that no kernel
/// writes. `copied` maps a copy to its source. Fails with an error if a function returns a type
/// that cannot be stored.
mlir::LogicalResult prepareTensors(mlir::func::FuncOp function,
                                   llvm::DenseMap<mlir::Value, mlir::Value> &copied);

} // namespace ejk

#endif // EJK_LOWERING_HOST_PREPARETENSORS_H
