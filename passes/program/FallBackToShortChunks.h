//===- FallBackToShortChunks.h - strong gates in shorter chunks ---*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_FALLBACKTOSHORTCHUNKS_H
#define EJK_PASSES_PROGRAM_FALLBACKTOSHORTCHUNKS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether a range guard of `program` looks at gates, so that strong ones leave the fast path.
bool guardsGates(tile::ProgramOp program);

/// Puts the chunks of `shorter` in the place of the exact path of `program`. `shorter` is a program of the
/// same scan, which is `reverse` or not, in chunks that divide those of `program`. Within its guard a
/// shorter chunk takes gates that are as many times as strong. Erases `shorter`. Returns false, and leaves
/// `program` as it is, where that has no chunk with one guard, or where the two carry other values.
bool fallBackToShortChunks(tile::ProgramOp program, tile::ProgramOp shorter, bool reverse);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_FALLBACKTOSHORTCHUNKS_H
