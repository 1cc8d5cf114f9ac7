//===- Interpreter.h - runs ejk programs on the host --------------*- C++ -*-===//
//
// The interpreter defines what ejk's ops mean: with Precision::f64 it is the oracle for passes,
// kernels and back ends. It interprets functions with recurrences, scans, block programs, linalg on
// tensors, and elementwise arith and math. It needs no GPU and generates no code. An op that it
// cannot run, or that finds wrong sizes, is a diagnostic at the op.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_INTERPRETER_H
#define EJK_DIALECT_REFERENCE_INTERPRETER_H

#include "dialect/reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>

namespace ejk::reference {

/// Interprets one op. Appends a tensor for each result.
using OpHandler =
    std::function<mlir::LogicalResult(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                                      llvm::SmallVectorImpl<Tensor> &results)>;

struct Options {
  Precision precision = Precision::f64;
  /// The number of threads; 0 for as many as the machine has.
  unsigned threads = 0;
  /// If given, partitions of a block program alternate at random; otherwise each runs until it must
  /// wait.
  std::optional<uint64_t> partitionSeed;
  /// If given, a `tile.guarded` whose guard holds runs its exact path, too. A result of the fast path
  /// that differs from the exact path's by more than this, relative to its norm, is an error.
  std::optional<double> pathTolerance;
  /// Called from time to time, by one thread at a time, with the finished steps of the current op
  /// and their total.
  std::function<void(size_t done, size_t total)> progress;
  /// Tried first for every op; returns null for ops that it does not interpret. Lets ops of other
  /// dialects (see dialect/check) run, too.
  std::function<OpHandler(mlir::Operation *op)> extension;
  /// If given, called with the results of each op of a function.
  std::function<void(mlir::Operation *op, llvm::ArrayRef<Tensor> results)> observe;
};

/// Runs `function` on `arguments` (a scalar is a tensor of rank 0) and returns its results. Fails
/// with diagnostics.
mlir::FailureOr<llvm::SmallVector<Tensor>> interpret(mlir::func::FuncOp function,
                                                     llvm::ArrayRef<Tensor> arguments,
                                                     const Options &options = {});

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_INTERPRETER_H
