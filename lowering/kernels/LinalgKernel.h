//===- LinalgKernel.h - the kernel of a linalg.generic ------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_LINALGKERNEL_H
#define EJK_LOWERING_KERNELS_LINALGKERNEL_H

#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace ejk {
/// Emits the kernel of `op` into `module`: a thread for each element of the parallel loops, or for a
/// few neighbours, with reductions in order. Fails with an error at the op if an operand is not a
/// permutation or broadcast of the loops.
llvm::FailureOr<Kernel> emitLinalgKernel(mlir::linalg::GenericOp op, mlir::gpu::GPUModuleOp module,
                                         llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_LINALGKERNEL_H
