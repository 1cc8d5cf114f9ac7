//===- DeriveScan.h - the derivative of a scan, as scans ----------*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_DERIVESCAN_H
#define EJK_PASSES_AUTODIFF_DERIVESCAN_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "passes/SavePolicy.h"

namespace ejk {

/// The requested gradients of a scan. A null type requests none; any other type is the gradient's
/// element type.
struct ScanRequest {
  /// For each output and each final state; null for zero.
  llvm::SmallVector<mlir::Value> outputCotangents, stateCotangents;
  llvm::SmallVector<mlir::Type> sequences, parameters;
  /// For each state.
  llvm::SmallVector<bool> initialStates;
  SavePolicy policy;
};

/// The gradients, in the shapes of the operands; null if not requested or zero.
struct ScanGradients {
  llvm::SmallVector<mlir::Value> sequences, parameters, initialStates;
};

/// Creates the derivative of `scan` at `b`. Fails with an error at an op that cannot be
/// differentiated.
mlir::FailureOr<ScanGradients> deriveScan(mlir::OpBuilder &b, ScanOp scan,
                                          const ScanRequest &request);

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_DERIVESCAN_H
