//===- SummedParts.h - tiles that are summed block by block -------*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_SUMMEDPARTS_H
#define EJK_LOWERING_LAYOUT_SUMMEDPARTS_H

#include "dialect/tile/Tile.h"
#include "llvm/ADT/DenseMap.h"

namespace ejk {

/// Elementwise ops on swizzled tiles, and the loads of these, whose only use is a reduction, with
/// that `tile.sum` or `tile.partial_sum`. They are computed block by block with the reduction, so
/// that no whole tile of theirs is live in registers.
llvm::DenseMap<mlir::Operation *, mlir::Operation *> findSummedInParts(tile::ProgramOp program);

/// Whether users of the cumsum read only its last element, the total.
bool isTotal(tile::CumsumOp op);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_SUMMEDPARTS_H
