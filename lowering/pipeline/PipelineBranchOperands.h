//===- PipelineBranchOperands.h - operands one iteration early ----*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H
#define EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Software-pipelines the operands of branches (ejk-pipeline-branch-operands): each iteration of
/// `program`'s loops computes the operands of the next iteration's branch inside its own branch.
/// Returns the number of loops changed.
unsigned pipelineBranchOperands(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_PIPELINEBRANCHOPERANDS_H
