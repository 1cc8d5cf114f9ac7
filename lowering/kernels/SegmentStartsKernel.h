//===- SegmentStartsKernel.h - the kernel of ejk.segment_starts ---*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SEGMENTSTARTSKERNEL_H
#define EJK_LOWERING_KERNELS_SEGMENTSTARTSKERNEL_H

#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

Kernel emitSegmentStartsKernel(SegmentStartsOp op, mlir::gpu::GPUModuleOp module,
                               llvm::StringRef name);

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SEGMENTSTARTSKERNEL_H
