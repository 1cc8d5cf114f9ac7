//===- HeadsKernel.h - the kernel of repeat_heads and first_heads -*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_HEADSKERNEL_H
#define EJK_LOWERING_KERNELS_HEADSKERNEL_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// Which head of the states a head of the result comes from, for an `ejk.repeat_heads` or
/// `ejk.first_heads`.
struct HeadSource {
  explicit HeadSource(mlir::Operation *op)
      : repeats(mlir::isa<RepeatHeadsOp>(op)),
        firstOnly(repeats && mlir::cast<RepeatHeadsOp>(op).getFirstOnly()) {}

  /// Of the result's head `head`, counted over all sequences, where the states have `from` heads a
  /// sequence and the result `to`.
  mlir::Value of(KernelBuilder &b, mlir::Value head, mlir::Value from, mlir::Value to) const {
    return repeats ? b.div(head, b.div(to, from)) : b.mul(head, b.div(from, to));
  }
  /// Whether the result's head is not zero; null where none is.
  mlir::Value exists(KernelBuilder &b, mlir::Value head, mlir::Value from, mlir::Value to) const {
    return firstOnly ? b.equal(b.rem(head, b.div(to, from)), 0) : mlir::Value();
  }

  bool repeats, firstOnly;
};

/// The numbers of one head of a state.
int64_t elementsOfHead(mlir::Value states);

/// Adds to `module` a kernel called `name` that computes the result of `op`.
Kernel emitHeadsKernel(mlir::Operation *op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_HEADSKERNEL_H
