//===- TileKernel.h - the kernel of a block program ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEKERNEL_H
#define EJK_LOWERING_EMIT_TILEKERNEL_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"

namespace ejk {

/// Checks that `program` and its rings are laid out as emission requires. Emits an error at the op
/// if not.
mlir::LogicalResult checkLaidOut(tile::ProgramOp program);

/// The minimum of shared memory, in bytes, that the kernel of laid-out `program` needs, with or
/// without double buffers for matmul operands that loops carry.
unsigned sharedMemoryNeed(tile::ProgramOp program, bool doubleBuffered = false);

/// Emits the kernel of a program that ejk-assign-tile-layouts has laid out into `module`. Fails
/// with an error at the program if the kernel needs more than `sharedLimit` bytes of shared memory.
mlir::FailureOr<Kernel> emitTileKernel(tile::ProgramOp program, mlir::gpu::GPUModuleOp module,
                                       llvm::StringRef name, SizeName sizeName,
                                       unsigned sharedLimit);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEKERNEL_H
