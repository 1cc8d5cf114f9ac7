//===- DeferStores.h - the last iteration's rows stored in this one ----*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_DEFERSTORES_H
#define EJK_LOWERING_PIPELINE_DEFERSTORES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Stores of `program`'s loops that stand behind all products go into the next iteration,
/// behind a product that has a barrier in front of it anyway. Returns how many.
unsigned deferStores(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_DEFERSTORES_H
