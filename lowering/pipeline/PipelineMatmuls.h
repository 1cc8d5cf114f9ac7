//===- PipelineMatmuls.h - matmuls one iteration early ------------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H
#define EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Software-pipelines matmuls of `program`'s loops: those whose operands all come from one item of
/// a ring with at least three stages are issued an iteration early. Returns the number of matmuls
/// moved.
unsigned pipelineMatmuls(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_PIPELINEMATMULS_H
