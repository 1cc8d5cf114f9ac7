//===- RowBytes.h - bytes that a program moves for a row -----------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_ROWBYTES_H
#define EJK_LOWERING_SELECT_ROWBYTES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Bytes of one row of each tensor that `program` loads, of which a head's slices together load
/// `bySlices`: a slice loads its own part of some tensors and all of the others.
struct RowBytes {
  int64_t once = 0, bySlices = 0;
};
RowBytes bytesOfLoadedRows(tile::ProgramOp program);

/// The bytes that a head's slices load of a row, with a row's part of the states that each chunk
/// saves or loads.
int64_t bytesMovedForRow(tile::ProgramOp program);
/// Those of several programs.
int64_t bytesMovedForRow(llvm::ArrayRef<tile::ProgramOp> programs);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_ROWBYTES_H
