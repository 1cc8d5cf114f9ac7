//===- TileKernel.h - the kernel of a block program ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEKERNEL_H
#define EJK_LOWERING_EMIT_TILEKERNEL_H

#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/step/StepKernel.h"

namespace ejk {

/// The most registers that each of a block's threads can have, and a thread by itself.
unsigned registersOf(unsigned threads);
constexpr unsigned kMostRegisters = 248;

/// That `program` is laid out, its rings too, as a kernel needs them; an error at the op
/// if not.
mlir::LogicalResult checkLaidOut(tile::ProgramOp program);

/// Whether what the rings of `program`, laid out, copy comes in boxes (TileTma.cpp). All tiles
/// must: what threads copied beside boxes they would wait for longer than for all. One warp copies
/// vectors.
bool takesBoxes(tile::ProgramOp program);

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
