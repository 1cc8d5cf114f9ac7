//===- SumHeadsKernel.h - the kernel of an ejk.sum_heads ----------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SUMHEADSKERNEL_H
#define EJK_LOWERING_KERNELS_SUMHEADSKERNEL_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// Adds to `module` a kernel called `name` that computes `op`'s result.
Kernel emitSumHeadsKernel(SumHeadsOp op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SUMHEADSKERNEL_H
