//===- TileVerify.h - what verifiers of the tile dialect share ---*- C++ -*-===//
#ifndef EJK_DIALECT_TILE_TILEVERIFY_H
#define EJK_DIALECT_TILE_TILEVERIFY_H

#include "dialect/tile/Tile.h"

namespace ejk::tile {

/// That `tile` may hold rows of `rows`; `constraint` is the number that `op`'s
/// description gives this.
mlir::LogicalResult verifyRows(mlir::Operation *op, RowsType rows, mlir::Type tile,
                               llvm::StringRef constraint);

} // namespace ejk::tile

#endif // EJK_DIALECT_TILE_TILEVERIFY_H
