//===- CombineSegmentsKernel.h - the kernel of ejk.combine_segments -*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_COMBINESEGMENTSKERNEL_H
#define EJK_LOWERING_KERNELS_COMBINESEGMENTSKERNEL_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// Adds to `module` a kernel called `name` that computes `op`'s results.
Kernel emitCombineSegmentsKernel(CombineSegmentsOp op, mlir::gpu::GPUModuleOp module,
                                 llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_COMBINESEGMENTSKERNEL_H
