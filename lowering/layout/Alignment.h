//===- Alignment.h - alignment of indices and copies --------------*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_ALIGNMENT_H
#define EJK_LOWERING_LAYOUT_ALIGNMENT_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether the index `value` is a multiple of `factor` by the way it is computed.
bool isMultipleOf(mlir::Value value, int64_t factor);

/// The width in bytes of an asynchronous copy of `tile`, of rows from channel `channel` on: at
/// most 16. A width below 4 means that `cp.async` cannot copy them.
unsigned copyBytes(tile::RowsType rows, mlir::VectorType tile, mlir::Value channel);
inline unsigned copyBytes(tile::LoadOp load) {
  return copyBytes(load.getRows().getType(), mlir::cast<mlir::VectorType>(load.getType()),
                   load.getChannel());
}

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_ALIGNMENT_H
