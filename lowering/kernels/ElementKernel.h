//===- ElementKernel.h - kernels whose threads compute elements ---*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_ELEMENTKERNEL_H
#define EJK_LOWERING_KERNELS_ELEMENTKERNEL_H

#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

/// Elements that a thread loads at once, where rows have a multiple of it.
constexpr unsigned kElementsOfLoad = 4;

/// Creates the function of `kernel`, called `name`, whose blocks have `cost::kElementThreads`
/// threads. It has an argument for each of the kernel's operands: a pointer to a tensor, or a size.
/// The builder goes on in its body.
mlir::gpu::GPUFuncOp makeElementKernel(KernelBuilder &b, Kernel &kernel, llvm::StringRef name);

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_ELEMENTKERNEL_H
