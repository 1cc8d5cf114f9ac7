//===- CpuPools.h - copies of states in pools, on a CPU -----------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUPOOLS_H
#define EJK_LOWERING_CPU_CPUPOOLS_H

#include "lowering/kernels/PooledStates.h"

namespace ejk {
/// The kernel of an `ejk.read_states`, `ejk.write_states` or `ejk.zero_skipped` that no scan's kernel
/// does; fails, after an error, for states after each row.
llvm::FailureOr<Kernel> emitCpuPool(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUPOOLS_H
