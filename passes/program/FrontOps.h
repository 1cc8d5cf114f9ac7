//===- FrontOps.h - the ops of a chunk's front ------------------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_FRONTOPS_H
#define EJK_PASSES_PROGRAM_FRONTOPS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// The ops of `program` that depend on which slice of the state it computes.
llvm::DenseSet<mlir::Operation *> opsOfSlice(tile::ProgramOp program);

/// Moves ops from the fast paths of branches in `loop` before these, where they need neither what
/// the loop carries nor an op of `others`.
void hoistRowsAlone(mlir::scf::ForOp loop, const llvm::DenseSet<mlir::Operation *> &others);

/// Whether rows of the matrix `tile` are known to be zero where a sequence has ended.
bool isZeroPastEnd(mlir::Value tile);

/// Whether those of `ops` that are in `loop` compute the same wherever a segment begins: an index
/// says which rows are loaded, or decides whether a guard holds, and becomes no number.
bool isWithoutPlaces(mlir::scf::ForOp loop, const llvm::DenseSet<mlir::Operation *> &ops);

/// Has the exact paths of branches in `loop` load the rows that they use, where no other path has
/// these, and within an exact path in any case: there memory is worth more than time.
void loadOnExactPaths(mlir::scf::ForOp loop);

/// Clones those of `ops` that are in `loop` to the end of a loop over the same chunks. Chunks are
/// visited in the order of time where nothing but `first`, the chunk's first row, says which is at
/// hand, and ops come in an order that what they compute decides: so fronts of two programs that
/// compute the same are the same.
void cloneInOneOrder(mlir::OpBuilder &b, mlir::scf::ForOp loop,
                     const llvm::DenseSet<mlir::Operation *> &ops, mlir::Value first, int64_t chunk,
                     mlir::IRMapping &map);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_FRONTOPS_H
