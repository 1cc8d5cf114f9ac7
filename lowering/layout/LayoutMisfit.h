//===- LayoutMisfit.h - whether a tile can have a layout ----------*- C++ -*-===//
#ifndef EJK_LOWERING_LAYOUT_LAYOUTMISFIT_H
#define EJK_LOWERING_LAYOUT_LAYOUTMISFIT_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// The most elements of a tile that fit the registers of a block.
constexpr int64_t kMostTileElements = 64 * 1024;

/// Why a tile of `type` cannot have `layout` in a block of so many warps; empty if it can.
std::string misfitOf(mlir::VectorType type, tile::LayoutAttr layout, int64_t warps);

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_LAYOUTMISFIT_H
