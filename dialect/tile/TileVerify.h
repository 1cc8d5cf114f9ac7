//===- TileVerify.h - shared verifiers of the tile dialect -------*- C++ -*-===//
#ifndef EJK_DIALECT_TILE_TILEVERIFY_H
#define EJK_DIALECT_TILE_TILEVERIFY_H

#include "dialect/tile/Tile.h"

namespace ejk::tile {

/// Verifies that `tile` can have rows of `rows`. `constraint` is the number of this constraint in
/// the description of `op`.
mlir::LogicalResult verifyRows(mlir::Operation *op, RowsType rows, mlir::Type tile,
                               llvm::StringRef constraint);

} // namespace ejk::tile

#endif // EJK_DIALECT_TILE_TILEVERIFY_H
