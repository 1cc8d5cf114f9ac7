//===- Neighbours.h - whose rows follow a block program's -----------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_NEIGHBOURS_H
#define EJK_LOWERING_KERNELS_NEIGHBOURS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether the rows after the last ones of `program`'s last chunk may be another sequence's or segment's.
/// A segment of whole chunks ends with one, and the last segment of a batch entry with that: TMA neither
/// loads nor stores rows beyond it.
inline bool hasNeighbours(tile::ProgramOp program) {
  if (program.getCuSeqlens())
    return true;
  std::optional<SegmentsAttr> segments = program.getSegments();
  return segments && segments->getLeast() % program.getChunk() != 0;
}

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_NEIGHBOURS_H
