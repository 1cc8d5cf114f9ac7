//===- RangeGuards.h - what a program's range guards let pass -----*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_RANGEGUARDS_H
#define EJK_LOWERING_SELECT_RANGEGUARDS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether the range guards of `program` let ordinary gates take the fast path. A CPU's are of sums
/// from a chunk's start on, over twice the rows that a GPU's are from its middle on.
bool takesOrdinaryGates(tile::ProgramOp program, bool isCpu);

/// The bound of the narrowest range guard; 0 where no gate per channel needs one.
int64_t leastGuard(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_RANGEGUARDS_H
