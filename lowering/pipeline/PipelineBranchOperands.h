//===- PipelineBranchOperands.h - the next chunk's factors in a branch ------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H
#define EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Has `program`'s loops make of an item what a branch takes an iteration early, in that
/// iteration's branch (ejk-pipeline-branch-operands). Returns how many loops do.
unsigned pipelineBranchOperands(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H
