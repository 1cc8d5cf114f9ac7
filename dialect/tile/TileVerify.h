//===- TileVerify.h - shared verifiers of the tile dialect -------*- C++ -*-===//
#ifndef EJK_DIALECT_TILE_TILEVERIFY_H
#define EJK_DIALECT_TILE_TILEVERIFY_H

#include "dialect/tile/Tile.h"

namespace ejk::tile {

/// Verifies that `tile` can have rows of `rows`. `constraint` is the number of this constraint in
/// the description of `op`.
mlir::LogicalResult verifyRows(mlir::Operation *op, RowsType rows, mlir::Type tile,
                               llvm::StringRef constraint);

/// Verifies that `from`, if given, is the number of one of `rows` rows.
mlir::LogicalResult verifyFrom(mlir::Operation *op, std::optional<int64_t> from, int64_t rows,
                               llvm::StringRef constraint);

/// Verifies that `triangle`, if given, is one for the cumsum that the other arguments describe, of
/// `rows` rows.
mlir::LogicalResult verifyTriangle(mlir::Operation *op, mlir::Value triangle, bool reverse,
                                   bool exclusive, std::optional<int64_t> from, int64_t rows,
                                   llvm::StringRef constraint);

/// Verifies that the guard of each `tile.guarded` in `program` is a range guard's. The program
/// does so, and not the op, because a guard may come from an earlier iteration of a loop, whose
/// terminator is verified by then.
mlir::LogicalResult verifyGuards(ProgramOp program);

} // namespace ejk::tile

#endif // EJK_DIALECT_TILE_TILEVERIFY_H
