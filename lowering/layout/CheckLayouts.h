//===- CheckLayouts.h - verification of layouts -------------------*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H
#define EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Verifies that `program` is laid out: it has only ops that can be lowered, and each tile has a
/// layout that fits its type, the program's warps and every op that uses it. Emits an error at the
/// op if not. Passes over laid-out programs and emission rely on it.
mlir::LogicalResult checkLayouts(tile::ProgramOp program);

/// The same for every laid-out program under `op`. Programs that are not laid out yet are skipped.
mlir::LogicalResult checkLayoutsIn(mlir::Operation *op);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H
