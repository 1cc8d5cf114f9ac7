//===- DeferStores.h - stores of the previous iteration -----------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_DEFERSTORES_H
#define EJK_LOWERING_PIPELINE_DEFERSTORES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Moves stores after the last matmul of `program`'s loops into the next iteration, after a matmul
/// that has a barrier anyway; with `always`, after the first one where none has. Returns the number of
/// stores moved.
unsigned deferStores(tile::ProgramOp program, bool always = false);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_DEFERSTORES_H
