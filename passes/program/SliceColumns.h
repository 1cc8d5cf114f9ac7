//===- SliceColumns.h - columns of a front in slices ------------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_SLICECOLUMNS_H
#define EJK_PASSES_PROGRAM_SLICECOLUMNS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// The columns of a slice: those of a swizzled tile, so that TMA can load it.
constexpr int64_t kColumnsOfSlice = 64;
/// The elements by which a slice says whether its gates are in range.
constexpr int64_t kElementsOfGuard = 4;

/// The columns that matrices and vectors of `ops` in `loop` have, if no op takes elements of one
/// column to another; otherwise 0.
int64_t columnsTreatedAlike(mlir::scf::ForOp loop, const llvm::DenseSet<mlir::Operation *> &ops);

/// Has each slice of `program`, which treats its columns alike, compute `kColumnsOfSlice` of them.
void sliceColumns(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_SLICECOLUMNS_H
