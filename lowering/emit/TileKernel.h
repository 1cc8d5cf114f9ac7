//===- TileKernel.h - the kernel of a block program ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEKERNEL_H
#define EJK_LOWERING_EMIT_TILEKERNEL_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"

namespace ejk {

/// Emits the kernel of a program that ejk-plan-memory has planned into `module`. Emits an error if
/// the program is not planned.
mlir::FailureOr<Kernel> emitTileKernel(tile::ProgramOp program, mlir::gpu::GPUModuleOp module,
                                       llvm::StringRef name, SizeName sizeName);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEKERNEL_H
