//===- CpuElementwise.h - CPU kernels between recurrences ---------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUELEMENTWISE_H
#define EJK_LOWERING_CPU_CPUELEMENTWISE_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace ejk {
/// Emits the kernel that runs `op` into `module`, as emitLinalgKernel does for a GPU.
llvm::FailureOr<Kernel> emitCpuElementwise(mlir::linalg::GenericOp op,
                                           mlir::gpu::GPUModuleOp module, llvm::StringRef name);
/// Add to `module` a kernel called `name` that computes `op`'s result.
Kernel emitCpuHeads(mlir::Operation *op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
Kernel emitCpuSumHeads(SumHeadsOp op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUELEMENTWISE_H
