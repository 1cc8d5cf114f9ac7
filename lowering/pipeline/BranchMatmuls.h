//===- BranchMatmuls.h - the order of a branch's matmuls ----------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_BRANCHMATMULS_H
#define EJK_LOWERING_PIPELINE_BRANCHMATMULS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {

/// The matmuls of a branch's fast path.
struct BranchMatmuls {
  /// Those whose operands are available when the branch starts.
  llvm::SmallVector<mlir::Operation *> ready;
  /// Stores that must move before the last matmul, after which their source is overwritten.
  llvm::SetVector<mlir::Operation *> late;
  /// The last matmul of the branch's first group, and the last matmul.
  mlir::Operation *first = nullptr, *last = nullptr;
};

/// Collects `op` and the ops in the body of `loop` that it depends on.
void collectMakers(mlir::scf::ForOp loop, mlir::Operation *op,
                   llvm::SetVector<mlir::Operation *> &makers);

/// Reorders the fast path of `branch`, in the body of `loop`: first matmuls with available
/// operands; while they run, the threads prepare operands of later matmuls. Results that other
/// warps need are stored to shared memory before the next MMAs are issued, so the barrier overlaps
/// with those MMAs.
void orderMatmuls(mlir::scf::ForOp loop, tile::GuardedOp branch, const BranchMatmuls &matmuls);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_BRANCHMATMULS_H
