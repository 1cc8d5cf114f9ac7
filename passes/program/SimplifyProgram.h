//===- SimplifyProgram.h - dead code and common subexpressions ----*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H
#define EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Removes code that no store depends on, also values that loops and branches carry, and common
/// subexpressions.
void simplifyProgram(tile::ProgramOp program);

/// Merges ifs (ejk-merge-ifs). Returns the number of ifs that were merged into others.
unsigned mergeIfs(tile::ProgramOp program);

/// Scales after matmuls (ejk-scale-after-dot). Returns the number of matmuls changed.
unsigned scaleAfterDot(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_SIMPLIFYPROGRAM_H
