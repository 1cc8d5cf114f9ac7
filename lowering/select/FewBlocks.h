//===- FewBlocks.h - functions for launches of few thread blocks --*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_FEWBLOCKS_H
#define EJK_LOWERING_SELECT_FEWBLOCKS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {
class ShapeAnalysis;

/// The thread blocks of `program` as conditions spell them; null where the function's arguments do
/// not tell.
mlir::Attribute countBlocks(mlir::Builder &b, const ShapeAnalysis &shapes, tile::ProgramOp program);

/// A copy of `function`, another way to compute it where each of its block programs has no more thread blocks
/// than the device has multiprocessors, which then run one each. Null where the function's sizes do not tell,
/// and where its sequences are divided into segments.
mlir::func::FuncOp cloneForFewBlocks(mlir::func::FuncOp function);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_FEWBLOCKS_H
