//===- SharedKernels.h - one kernel for ops that do the same ------*- C++ -*-===//
//
// Alternatives of a function, and a function beside the one that saves states for its derivative,
// have ops in common. Such ops are launched with one kernel, which is emitted and compiled once. A
// kernel takes each size as an argument, so it also serves ops of which two sizes are equal that
// may differ in the op that it was made of: heads that share none, say.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_HOST_SHAREDKERNELS_H
#define EJK_LOWERING_HOST_SHAREDKERNELS_H

#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>

namespace ejk {

/// The kernels that were made so far, each with the op that it was made of. The ops must outlive
/// this.
class SharedKernels {
public:
  /// The kernel of `ops`, any op that has one or two programs that share one: that of earlier ops
  /// that compute the same from tensors whose sizes are equal only where those of `ops` are, or
  /// else what `make` makes. A kernel for a single step is no other one.
  llvm::FailureOr<Kernel> get(llvm::ArrayRef<mlir::Operation *> ops, bool singleStep,
                              SizeName sizeName,
                              llvm::function_ref<llvm::FailureOr<Kernel>()> make);

  /// How many ops took another one's kernel.
  unsigned numShared = 0;

private:
  struct Made {
    llvm::SmallVector<mlir::Operation *> ops;
    bool singleStep;
    llvm::SmallVector<std::string> sizes; // by name
    Kernel kernel;
  };
  std::deque<Made> all;
};

} // namespace ejk

#endif // EJK_LOWERING_HOST_SHAREDKERNELS_H
