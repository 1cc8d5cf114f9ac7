//===- SimplifyProgram.h - block programs without what is of no use -*- C++ -*-===//
#ifndef EJK_PASSES_SIMPLIFYPROGRAM_H
#define EJK_PASSES_SIMPLIFYPROGRAM_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Removes what no store needs, be it carried through loops and branches, and makes once
/// what is made twice.
void simplifyProgram(tile::ProgramOp program);

/// See ejk-merge-choices. Gives the number of branches that went into others.
unsigned mergeChoices(tile::ProgramOp program);

/// See ejk-scale-late. Gives the number of products.
unsigned scaleLate(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_SIMPLIFYPROGRAM_H
