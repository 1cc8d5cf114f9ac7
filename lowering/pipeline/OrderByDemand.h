//===- OrderByDemand.h - an order of few live tiles ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_ORDERBYDEMAND_H
#define EJK_LOWERING_PIPELINE_ORDERBYDEMAND_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Reduces the register pressure of a laid-out program whose matmuls are those of single warps
/// (`mma.sync`), which run while their warp waits, so that order costs registers alone:
///
///   - a tile that was stored to shared memory as a matmul's operand is reloaded from there for
///     what else uses it later;
///   - ops run when a store, a branch or the next iteration needs their result, and before that
///     where they end live ranges of as many registers as their result takes.
///
/// Only of a program whose tiles take more registers than a thread has, and whose chunks are not
/// the shortest: tiles that are reloaded stay in shared memory for longer, which such a program
/// has none left of. Returns whether it is one.
bool orderByDemand(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_ORDERBYDEMAND_H
