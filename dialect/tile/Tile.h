//===- Tile.h - the tile dialect ------------------------------------------===//
//
// The program of one thread block for a chunked recurrence. dialect/tile/Tile.td
// defines what the ops mean.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_TILE_H
#define EJK_DIALECT_TILE_TILE_H

#include "dialect/ejk/Ejk.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
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
/// On every op of a laid-out program with tiles as results: the layout of each.
constexpr llvm::StringLiteral kLayoutsAttr = "tile.layouts";
/// On a laid-out program: the number of warps that tiles are divided over.
constexpr llvm::StringLiteral kWarpsAttr = "tile.warps";
/// On a laid-out program: matmuls run on warpgroups (`wgmma`).
constexpr llvm::StringLiteral kWarpgroupsAttr = "tile.warpgroups";
/// On a program whose shared memory is planned (ejk-plan-memory): the bytes that a block needs.
constexpr llvm::StringLiteral kSharedBytesAttr = "tile.shared_bytes";
/// On an exponential of a laid-out program: every n-th element of a thread is computed by a
/// polynomial, which is valid for |x| ≤ 87 (ejk-split-exponentials).
constexpr llvm::StringLiteral kPolynomialAttr = "tile.polynomial";
} // namespace ejk

#endif // EJK_DIALECT_TILE_TILE_H
