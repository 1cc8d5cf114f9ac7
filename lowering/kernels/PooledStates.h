//===- PooledStates.h - states that a scan's kernel keeps in a pool -*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_POOLEDSTATES_H
#define EJK_LOWERING_KERNELS_POOLEDSTATES_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// How a scan's kernel takes a state from a pool and puts it there itself.
struct PooledState {
  ReadStatesOp start; // null where it starts otherwise
  WriteStatesOp end;  // null where it ends otherwise
  explicit operator bool() const { return start || end; }
  mlir::Value index() { return start ? start.getIndex() : end.getIndex(); }
  mlir::Value pool() { return start ? start.getPool() : end.getPool(); }
};

/// Of state `i` of `scan`: nothing where others read or write the pool.
PooledState pooledState(ScanOp scan, unsigned i);

/// The kernel of an `ejk.read_states` or `ejk.write_states` that no scan's kernel does.
Kernel emitPoolCopyKernel(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                          llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_POOLEDSTATES_H
