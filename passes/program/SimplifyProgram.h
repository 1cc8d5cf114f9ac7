//===- SimplifyProgram.h - block programs without what is of no use -*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H
#define EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Removes what no store needs, be it carried through loops and branches, and makes once
/// what is made twice.
void simplifyProgram(tile::ProgramOp program);

/// See ejk-merge-ifs. Gives the number of branches that went into others.
unsigned mergeIfs(tile::ProgramOp program);

/// See ejk-scale-after-dot. Gives the number of products.
unsigned scaleAfterDot(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H
