//===- DeriveScan.h - the derivative of a scan, as scans ----------*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_DERIVESCAN_H
#define EJK_PASSES_AUTODIFF_DERIVESCAN_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "passes/SavePolicy.h"

namespace ejk {

/// What is asked of a scan's derivative. A null type asks for nothing, any other
/// is the element type the gradient shall have.
struct ScanRequest {
  /// Per output and per final state; null stands for zero.
  llvm::SmallVector<mlir::Value> outputCotangents, stateCotangents;
  llvm::SmallVector<mlir::Type> sequences, parameters;
  /// Per state.
  llvm::SmallVector<bool> initialStates;
  SavePolicy policy;
};

/// The gradients, as their operands' shapes; null where none was asked for, or
/// where it is zero.
struct ScanGradients {
  llvm::SmallVector<mlir::Value> sequences, parameters, initialStates;
};

/// Builds the derivative of `scan` at `b`. Fails with an error at the op that
/// cannot be differentiated.
mlir::FailureOr<ScanGradients> deriveScan(mlir::OpBuilder &b, ScanOp scan,
                                          const ScanRequest &request);

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_DERIVESCAN_H
