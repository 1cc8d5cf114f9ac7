//===- CpuTileKernel.h - the kernel of a block program on a CPU ---*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUTILEKERNEL_H
#define EJK_LOWERING_CPU_CPUTILEKERNEL_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelSignature.h"

namespace ejk {

/// Emits the kernel of `program` into `module`, called `name`. An item of its grid is a sequence
/// and head. Fails, after an error, where the program has an op that no CPU kernel has, or where
/// the kernel would need more of a thread's stack than it may use.
llvm::FailureOr<Kernel> emitCpuProgram(tile::ProgramOp program, mlir::gpu::GPUModuleOp module,
                                       llvm::StringRef name, SizeName sizeName);

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUTILEKERNEL_H
