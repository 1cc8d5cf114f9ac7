//===- TmaTiles.h - which tiles of rings are TMA tiles ------------*- C++ -*-===//
//
// Of a laid-out program with rings: what of it the device can copy by itself. emit/TileTma.cpp
// emits those copies.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PIPELINE_TMATILES_H
#define EJK_LOWERING_PIPELINE_TMATILES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// The op that takes `ring`'s items; its tiles' layouts are those of the stages.
tile::TakeOp takeOf(tile::MakeRingOp ring);
/// The fills of `ring`.
llvm::SmallVector<tile::FillOp> fillsOf(tile::MakeRingOp ring);

/// The program's argument that has `rows`.
mlir::Value argOf(mlir::Value rows);

/// Whether panels of `type`, from `channel` on, are panels of memory.
bool isInBoxes(mlir::Value rows, mlir::Value channel, mlir::VectorType type,
               tile::LayoutAttr layout);

/// Rows and panels of a box that has all of a tile.
std::pair<int64_t, int64_t> boxOf(mlir::Type tile);

/// How many items of a ring are taken: as many as a loop counts, and some more.
struct TakenItems {
  mlir::Value count;
  int64_t more;
};
/// Null where that is not known before all fills of `ring`, or not which items these are of.
std::optional<TakenItems> takenOf(tile::MakeRingOp ring);

/// Whether TMA loads (emit/TileTma.cpp) fill the rings of the laid-out `program`. They do for all
/// matrices or for none: waiting for TMA loads and for copies by threads costs more than either
/// alone. One warp copies vectors beside TMA loads.
bool usesTmaLoads(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_TMATILES_H
