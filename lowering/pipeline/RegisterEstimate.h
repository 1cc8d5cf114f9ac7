//===- RegisterEstimate.h - registers that tiles need -------------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_REGISTERESTIMATE_H
#define EJK_LOWERING_PIPELINE_REGISTERESTIMATE_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// The most registers of a thread that the tiles of a laid-out program occupy at one time: those of
/// values that are live at an op, and the result of a matmul beside its operands.
int64_t registersOfLiveTiles(tile::ProgramOp program);

/// Whether a thread has registers for the program, if its tiles take `ofTiles` of them.
bool fitsRegisters(tile::ProgramOp program, int64_t ofTiles);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_REGISTERESTIMATE_H
