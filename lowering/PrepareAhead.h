//===- PrepareAhead.h - the next chunk's factors in a branch ------*- C++ -*-===//
#ifndef EJK_LOWERING_PREPAREAHEAD_H
#define EJK_LOWERING_PREPAREAHEAD_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Has `program`'s loops make of an item what a branch takes an iteration early, in that
/// iteration's branch (ejk-prepare-ahead). Returns how many loops do.
unsigned prepareAhead(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PREPAREAHEAD_H
