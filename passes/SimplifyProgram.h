//===- SimplifyProgram.h - block programs without what is of no use -*- C++ -*-===//
#ifndef EJK_PASSES_SIMPLIFYPROGRAM_H
#define EJK_PASSES_SIMPLIFYPROGRAM_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Removes what no store needs, be it carried through loops and branches, and makes once
/// what is made twice.
void simplifyProgram(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_SIMPLIFYPROGRAM_H
