//===- ProgramLaunches.h - launches of kernels -----------------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_PROGRAMLAUNCHES_H
#define EJK_LOWERING_HOST_PROGRAMLAUNCHES_H

#include "lowering/host/ProgramBuffers.h"
#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace ejk {

/// Launches kernels on the program's buffers, on a grid of the sizes that a launch has.
class ProgramLaunches : public ProgramBuffers {
protected:
  ProgramLaunches(mlir::func::FuncOp function, mlir::gpu::GPUModuleOp kernels)
      : ProgramBuffers(function), kernels(kernels) {}

  /// The condition under which an op's results are used.
  struct Alternative {
    mlir::Value rows; // the sequence whose rows are counted; null: always used
    bool single = false;
    bool operator==(const Alternative &o) const { return rows == o.rows && single == o.single; }
  };

  /// Finds the ops whose results are all used under the same condition.
  void findAlternatives();
  /// Whether `alternative` holds.
  llvm::FailureOr<mlir::Value> isAskedFor(mlir::Operation *op, const Alternative &alternative);
  /// Launches `kernel`, of `op`, where `condition`, null for always, holds. It may be of `other`,
  /// too.
  llvm::LogicalResult launch(mlir::Operation *op, const Kernel &kernel,
                             mlir::Value condition = mlir::Value(),
                             mlir::Operation *other = nullptr);

  mlir::gpu::GPUModuleOp kernels;
  llvm::DenseMap<mlir::Operation *, Alternative> alternatives;

private:
  /// A tensor map of `buffer`: [matrices, blocks of 128 bytes, rows, columns of a block], or by
  /// head [matrices, heads, rows, columns of a head].
  llvm::FailureOr<mlir::Value> tensorMap(mlir::Operation *op, const KernelOperand &operand,
                                         mlir::Value buffer);
};

} // namespace ejk

#endif // EJK_LOWERING_HOST_PROGRAMLAUNCHES_H
