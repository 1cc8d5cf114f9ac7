//===- PipelineMatmuls.h - the next iteration's first products ----*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H
#define EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Takes the products of `program`'s loops whose factors come through a ring of three stages
/// or more, and are of one item alone, an iteration early. Returns how many.
unsigned pipelineMatmuls(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H
