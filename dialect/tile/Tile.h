//===- Tile.h - the tile dialect ------------------------------------------===//
//
// One thread block's work on a chunked recurrence. See dialect/tile/Tile.td for
// the meaning.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILE_H
#define EJK_DIALECT_TILE_TILE_H

#include "dialect/ejk/KnownAttributes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/tile/TileDialect.h.inc"
#include "dialect/tile/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/tile/TileAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/tile/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "dialect/tile/TileOps.h.inc"

namespace ejk {
/// On every op of a laid-out program that makes tiles: a layout per result.
constexpr llvm::StringLiteral kLayoutsAttr = "tile.layouts";
/// On a laid-out program: the warps that work on it.
constexpr llvm::StringLiteral kWarpsAttr = "tile.warps";
/// On a laid-out program: products are taken by groups of four warps (`wgmma`).
constexpr llvm::StringLiteral kWarpgroupsAttr = "tile.warpgroups";
/// On an exponential of a laid-out program: of so many of a thread's elements one is evaluated by
/// multiply-adds, which is right where |x| ≤ 87. Others are not used (ejk-split-exponentials).
constexpr llvm::StringLiteral kPolynomialAttr = "tile.polynomial";
} // namespace ejk

#endif // EJK_DIALECT_TILE_TILE_H
