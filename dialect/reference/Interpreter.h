//===- Interpreter.h - runs ejk programs on the host --------------*- C++ -*-===//
//
// The interpreter is what ejk's ops mean: with Precision::f64 it is the oracle
// that passes, kernels and backends are held to. It interprets functions over
// recurrences, scans, linalg on tensors and elementwise arith and math; it
// needs no GPU and generates no code. Whatever it cannot run, or finds wrong
// with the sizes it meets, is a diagnostic at the op.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_INTERPRETER_H
#define EJK_DIALECT_REFERENCE_INTERPRETER_H

#include "dialect/reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>

namespace ejk::reference {

/// Interprets one op: appends a tensor for each of its results.
using OpHandler =
    std::function<mlir::LogicalResult(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                                      llvm::SmallVectorImpl<Tensor> &results)>;

struct Options {
  Precision precision = Precision::f64;
  /// 0: as many as the machine has.
  unsigned threads = 0;
  /// Has the roles of a block program take turns at random, if given; else each runs
  /// until it must wait.
  std::optional<uint64_t> roleSeed;
  /// Called now and then, by one thread at a time, with the steps done of the
  /// op under way and their total.
  std::function<void(size_t done, size_t total)> progress;
  /// Asked first for every op: says whether it interprets it, and does. Lets
  /// another dialect's ops (see dialect/check) run among ejk's.
  std::function<OpHandler(mlir::Operation *op)> extension;
};

/// Runs `function` on `arguments` (a scalar is a tensor of rank 0) and gives
/// its results. Fails with diagnostics.
mlir::FailureOr<llvm::SmallVector<Tensor>> interpret(mlir::func::FuncOp function,
                                                     llvm::ArrayRef<Tensor> arguments,
                                                     const Options &options = {});

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_INTERPRETER_H
