//===- GroupSums.h - outputs that a program's kernel sums over groups -*- C++ -*-===//
//
// The gradient of a tensor that a group's heads share is the sum of a term from each head. Where a
// program's heads store in turn (`tile.await_turn`), its kernel adds the terms up in the place of
// the sum, so that no terms of each head pass through memory.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_GROUPSUMS_H
#define EJK_LOWERING_KERNELS_GROUPSUMS_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether a kernel could compute `sum`, of rows that a block program stores, if it stored f32 in
/// turn.
bool canSumInTurn(SumHeadsOp sum);

/// The op whose result the kernel of `program` writes itself in the place of `output`; null where
/// there is none.
SumHeadsOp sumOfOutput(tile::ProgramOp program, mlir::Value output);

/// Whether heads add up what `store`, of a program, stores.
bool isSummed(tile::StoreOp store);

/// Whether the kernel of a program does what `sum` does.
bool isSummedByProgram(SumHeadsOp sum);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_GROUPSUMS_H
