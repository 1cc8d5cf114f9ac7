//===- LiveRanges.h - how long tiles take registers --------------*- C++ -*-===//
//
// Of a program that is laid out: what ejk-schedule-matmuls moves, reads or makes again for
// no tile to be kept longer than it must.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PIPELINE_LIVERANGES_H
#define EJK_LOWERING_PIPELINE_LIVERANGES_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk {

/// The ops of a block but its terminator.
llvm::SmallVector<mlir::Operation *> opsOf(mlir::Block &block);

/// Whether `op` only adds to what is kept: it makes fragments of a tile in shared memory,
/// of fewer bytes or of a vector, or of such alone; or nothing but a sum needs what it makes.
bool canWait(mlir::Operation *op);

/// The registers of a thread that `value` takes, from when it is made until it is used last.
int64_t registersOf(mlir::Value value);

/// What is made of the tiles that `loop` starts from, or of an earlier loop's results, and not
/// of its own, is made in front of it, and stored there: they need not be kept beside what the
/// loop carries.
void useInitsEarly(mlir::scf::ForOp loop);

/// Rows of tiles in registers are taken where the tile is made, and branches read again
/// what was stored to shared memory: the tile need not be kept for them.
void endTilesEarly(tile::ProgramOp program);

/// What is read from shared memory or widened, and used in branches, is so in each of them:
/// not kept from before the branch on.
void moveIntoBranches(tile::ProgramOp program);

/// Puts ops that can wait right in front of the first that needs them; where warps multiply one by
/// one in a branch, those on vectors, too. What is read or widened is so once more for those that
/// need it behind a product.
void putOff(mlir::Block &block);

/// What was stored to shared memory as a factor, and is used in registers behind a
/// product, is read from there again: it need not be kept meanwhile.
void readAgain(mlir::Block &block);

/// On the other side of a branch, what is made of tiles that wait, and of what is there all along,
/// is made anew for each use: it need not be kept from one to the next.
void makeAgain(mlir::Block &block);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_LIVERANGES_H
