//===- Neighbours.h - whose rows follow a block program's -----------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_NEIGHBOURS_H
#define EJK_LOWERING_KERNELS_NEIGHBOURS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether a chunk of `program` may hold rows after the last of its own. Segments and trailing rows of whole
/// chunks end where a chunk ends. The last segment of a batch entry may end within one, but TMA neither loads nor
/// stores rows past the entry.
inline bool hasNeighbours(tile::ProgramOp program) {
  if (program.getCuSeqlens())
    return true;
  std::optional<SegmentsAttr> segments = program.getSegments();
  return segments && (segments->getLeast() % program.getChunk() != 0 ||
                      program.getTrailing().value_or(0) % program.getChunk() != 0);
}

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_NEIGHBOURS_H
