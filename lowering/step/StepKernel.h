//===- StepKernel.h - the step-by-step kernel of a scan -----------*- C++ -*-===//
#ifndef EJK_LOWERING_STEP_STEPKERNEL_H
#define EJK_LOWERING_STEP_STEPKERNEL_H

#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"
#include "lowering/step/StepPlan.h"

namespace ejk {
/// Emits the kernel of `plan`, called `name`, into `module`. B, T, N and all numbers of heads are
/// arguments. Unused final states are not stored.
Kernel emitStepKernel(const StepPlan &plan, mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                      SizeName sizeName);
} // namespace ejk

#endif // EJK_LOWERING_STEP_STEPKERNEL_H
