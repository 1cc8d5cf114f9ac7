//===- CheckLayouts.h - that a program's layouts fit its ops ------*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H
#define EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// That `program` is laid out: it holds only ops that can become kernel code, and each tile has a
/// layout that fits its type, the program's warps and every op that uses it. An error at the op if
/// not. Passes over laid-out programs and the emission rely on it.
mlir::LogicalResult checkLayouts(tile::ProgramOp program);

/// The same for every laid-out program under `op`; programs without warps are passed over.
mlir::LogicalResult checkLayoutsIn(mlir::Operation *op);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_CHECKLAYOUTS_H
