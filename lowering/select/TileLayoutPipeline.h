//===- TileLayoutPipeline.h - layouts for block programs ----------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_TILELAYOUTPIPELINE_H
#define EJK_LOWERING_SELECT_TILELAYOUTPIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace ejk {

/// Gives the tiles of block programs their layouts, after the rewrites that this needs. The
/// selection of a schedule runs it on copies, to see what fits.
/// `roundExponentials` keeps exponentials that are live across a branch in bf16; states of up to
/// `twoTermStates` channels are read in two terms where a gate's gradient sums what is read. With
/// `partitionWarps`, what does not depend on a state may get warps of its own.
void buildTileLayoutPipeline(mlir::OpPassManager &pm, llvm::StringRef arch, bool roundExponentials,
                             int64_t twoTermStates, bool partitionWarps = false);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_TILELAYOUTPIPELINE_H
