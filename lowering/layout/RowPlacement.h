//===- RowPlacement.h - rows from and to memory --------------------*- C++ -*-===//
//
// Where rows lie that a program of warpgroups loads and stores: rows in memory go through shared
// memory, but for those that only registers have need of.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_ROWPLACEMENT_H
#define EJK_LOWERING_LAYOUT_ROWPLACEMENT_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether f32 rows are loaded to registers. Rows with a single use, and what f_fwd gives, need
/// not pass through shared memory, which is scarce with `wgmma`. Four lanes read 32 adjacent
/// bytes. Branches take their rows from stages of shared memory, and so do gates, with which a
/// chunk begins, and matmuls in tf32.
bool loadsToRegisters(tile::LoadOp load);

/// Whether 16-bit rows are stored through a swizzled tile, from which whole cache lines are
/// written.
bool storesFromSwizzled(tile::StoreOp store);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_ROWPLACEMENT_H
