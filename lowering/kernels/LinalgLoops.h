//===- LinalgLoops.h - what a kernel of a linalg.generic runs over -*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_LINALGLOOPS_H
#define EJK_LOWERING_KERNELS_LINALGLOOPS_H

#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace ejk {

/// The loops of an elementwise op or a small reduction, and the tensors that its kernel takes, for
/// any back end.
struct LinalgLoops {
  llvm::SmallVector<unsigned> parallel, reductions;
  /// Of each loop: a tensor and its dimension, which give the loop's length.
  llvm::SmallVector<KernelOperand> source;
  /// What the kernel takes: inputs, initial values that are read and not constant, results.
  llvm::SmallVector<mlir::Value> tensors;

  /// Fails, after an error at the op, where an operand is no permutation or broadcast of the loops,
  /// or a number is taken that is no constant.
  static llvm::FailureOr<LinalgLoops> of(mlir::linalg::GenericOp op);
  /// The parallel loops, outermost first, with neighbours together that every operand walks as one
  /// loop over their product, or does not walk.
  llvm::SmallVector<llvm::SmallVector<unsigned>> mergedParallel(mlir::linalg::GenericOp op) const;
  /// The length of `loop` where a type of an operand or result gives it.
  static std::optional<int64_t> staticLength(mlir::linalg::GenericOp op, unsigned loop);
  /// Whether a kernel takes the input `input`, and not its constant.
  static bool isTensor(mlir::Value input) {
    return mlir::isa<mlir::RankedTensorType>(input.getType());
  }
  /// Whether the initial value of result `i` is a tensor that a kernel loads.
  bool loadsInit(mlir::linalg::GenericOp op, unsigned i) const;
  /// Whether result `i` depends on its initial value.
  bool readsInit(mlir::linalg::GenericOp op, unsigned i) const;
  /// The constant that `init` is filled with; null if there is none.
  static mlir::TypedAttr constantInit(mlir::Value init);
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_LINALGLOOPS_H
