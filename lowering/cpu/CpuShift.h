//===- CpuShift.h - rows of other steps, on a CPU -----------------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUSHIFT_H
#define EJK_LOWERING_CPU_CPUSHIFT_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// Adds to `module` a kernel called `name` that computes the result of `op`, an `ejk.shift` or an
/// `ejk.last_rows`.
Kernel emitCpuShift(mlir::Operation *op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUSHIFT_H
