//===- TmaTiles.h - which tiles of rings are TMA tiles ------------*- C++ -*-===//
//
// Decides which rings of a laid-out program TMA fills. emit/TileTma.cpp emits the loads.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PIPELINE_TMATILES_H
#define EJK_LOWERING_PIPELINE_TMATILES_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk {

/// A take of `ring`; its tiles have the layouts of the stages.
tile::TakeOp takeOf(tile::MakeRingOp ring);
/// The fills of `ring`.
llvm::SmallVector<tile::FillOp> fillsOf(tile::MakeRingOp ring);

/// Whether nothing is copied to `ring`: `tile.put` fills it.
bool isOfComputedTiles(tile::MakeRingOp ring);
/// The partitions of `program`; null if it has none.
tile::WarpSpecializeOp partitionsOf(tile::ProgramOp program);
inline bool hasPartitions(tile::ProgramOp program) { return bool(partitionsOf(program)); }

/// The program argument that `rows` belong to.
mlir::Value argOf(mlir::Value rows);

/// Whether a tile of `type` with `layout`, from `channel` on, is a TMA tile: of 16 bits or f32,
/// 128-byte-swizzled as TMA writes it, from a multiple of 128 bytes on, of rows that are a multiple
/// of 16 bytes long.
bool isTmaTile(mlir::Value rows, mlir::Value channel, mlir::VectorType type,
               tile::LayoutAttr layout);

/// Whether the TMA tile from `channel` on is copied in blocks of 128 bytes one by one, because a
/// head's rows are no whole number of them or the tile goes beyond its head. The tensor map then
/// has the head as a dimension, and TMA copies zeros for columns beyond the head.
bool hasPartialBlocks(mlir::Value rows, mlir::Value channel, mlir::VectorType type);

/// The size of a whole tile: its rows, and its blocks of 128 bytes.
std::pair<int64_t, int64_t> tmaTileShape(mlir::Type tile);

/// The number of items of a ring that each taker takes: the trip count of a loop, plus `more`.
struct TakenItems {
  mlir::Value count;
  int64_t more;
};
/// Null if the number is not known before all fills of `ring`, or the items of the fills are not
/// known.
std::optional<TakenItems> takenOf(tile::MakeRingOp ring);

/// Whether TMA loads (emit/TileTma.cpp) fill the rings of the laid-out `program`. They do for all
/// matrices or for none: waiting for TMA loads and for copies by threads costs more than either
/// alone. One warp copies vectors beside TMA loads. Where threads read few tiles, or copy many
/// stages of f32 rows ahead, they copy faster themselves, but not in partitions, which
/// `forPartitions` says that the program becomes.
bool usesTmaLoads(tile::ProgramOp program, bool forPartitions = false);

/// The loop that carries the tile and the row index of `store`, if any, and the number of the row
/// index among the loop's results.
std::pair<mlir::scf::ForOp, unsigned> carrierOf(tile::StoreOp store);
/// The stores to `arg`, an output or saved states of the program; null for users that are none.
llvm::SmallVector<tile::StoreOp> storesTo(mlir::Value arg);
/// The stores of `program` that can use TMA, if TMA also loads all its rows: those of swizzled
/// tiles. Copies by threads exclude it, because the proxy fence of a store would wait for
/// outstanding copies.
llvm::SmallVector<tile::StoreOp> findTmaStores(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_TMATILES_H
