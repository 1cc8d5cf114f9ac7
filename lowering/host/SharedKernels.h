//===- SharedKernels.h - one kernel for ops that do the same ------*- C++ -*-===//
//
// Alternatives of a function, and a function beside the one that saves states for its derivative,
// have ops in common. Such ops are launched with one kernel, which is emitted and compiled once.
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
  /// The kernel of `op`, an `ejk.scan`, a `tile.program` or an `ejk.sum_heads`: that of an earlier
  /// op that computes the same from tensors of the same sizes, or else what `make` makes. A kernel
  /// for a single step is no other one.
  llvm::FailureOr<Kernel> get(mlir::Operation *op, bool singleStep, SizeName sizeName,
                              llvm::function_ref<llvm::FailureOr<Kernel>()> make);

  /// How many ops took another one's kernel.
  unsigned numShared = 0;

private:
  struct Made {
    mlir::Operation *op;
    bool singleStep;
    std::string sizes; // by name
    Kernel kernel;
  };
  std::deque<Made> all;
};

} // namespace ejk

#endif // EJK_LOWERING_HOST_SHAREDKERNELS_H
