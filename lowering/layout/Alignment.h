//===- Alignment.h - what addresses in a program are multiples of -*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_ALIGNMENT_H
#define EJK_LOWERING_LAYOUT_ALIGNMENT_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether the index `value` is a multiple of `factor` as it is computed.
bool isMultipleOf(mlir::Value value, int64_t factor);

/// The bytes that an asynchronous copy of rows' channels from `channel` on can move
/// at a time: at most 16; fewer than 4 where there is none such.
unsigned copyBytes(tile::RowsType rows, mlir::Value channel);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_ALIGNMENT_H
