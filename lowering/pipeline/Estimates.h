//===- Estimates.h - cycles that an op takes ----------------------*- C++ -*-===//
//
// Estimates by which ops are ordered, and from which a schedule is drawn; in cycles of one
// multiprocessor, by the throughputs of CostModel.h.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PIPELINE_ESTIMATES_H
#define EJK_LOWERING_PIPELINE_ESTIMATES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Cycles that the warps need to issue `op`, which is laid out.
int64_t issueCycles(mlir::Operation *op);

/// Cycles of `dot` on the tensor cores, without its latency.
int64_t matmulCycles(tile::DotOp dot);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_ESTIMATES_H
