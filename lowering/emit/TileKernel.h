//===- TileKernel.h - the kernel of a block program ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEKERNEL_H
#define EJK_LOWERING_EMIT_TILEKERNEL_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"

namespace ejk {

/// That `program` is laid out, its rings too, as a kernel needs them; an error at the op
/// if not.
mlir::LogicalResult checkLaidOut(tile::ProgramOp program);

/// The shared memory in bytes that the kernel of `program`, laid out, needs at least; with what
/// loops carry in two places by turns (`placesByTurns`), or in one.
unsigned sharedMemoryNeed(tile::ProgramOp program, bool placesByTurns = false);

/// Makes a kernel in `module` for a program that ejk-assign-tile-layouts has
/// laid out. Fails, with an error at the program, where it needs more than
/// `sharedLimit` bytes of shared memory.
mlir::FailureOr<Kernel> emitTileKernel(tile::ProgramOp program, mlir::gpu::GPUModuleOp module,
                                       llvm::StringRef name, SizeName sizeName,
                                       unsigned sharedLimit);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEKERNEL_H
