//===- ChunkTiles.h - a step's values as a chunk's tiles ----------*- C++ -*-===//
//
// A step scalar becomes a vector over the chunk's steps, a step vector a matrix
// of steps and channels, whatever is constant in time stays a number or a vector
// and is spread where it meets what is not. Channels are padded to a multiple of
// 16; of a sliced vector a tile holds the slice's channels. Rows beyond the
// sequence's end load as zeros, but what is computed of them need not be zero:
// `masked` makes it so.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKTILES_H
#define EJK_PASSES_CHUNK_CHUNKTILES_H

#include "passes/chunk/ChunkPlan.h"
#include "passes/chunk/TileBuilder.h"
#include <functional>

namespace ejk {

class ChunkTiles {
public:
  /// `prologue` stands before the loop over chunks, `body` in it.
  ChunkTiles(const ChunkPlan &plan, tile::ProgramOp program, TileBuilder &prologue,
             TileBuilder &body)
      : plan(plan), program(program), prologue(prologue), body(body) {}

  /// Computes a chain's tiles, for the first of its reads that is asked for; it
  /// calls `setRead` for each.
  std::function<void(const StateChain &)> computeChain;
  void setRead(mlir::Operation *whole, mlir::Value tile) { readTiles[whole] = tile; }
  /// The same for a product that a read is paired in, or, where that is only summed, for its
  /// rows' sums.
  void setPairing(mlir::arith::MulFOp op, mlir::Value tile) { readTiles[op] = tile; }

  /// Begins a chunk at row `first`, with `rows` rows left in the sequence. `entersSaved`:
  /// whether the walk comes there to rows with a saved state of their own; null where
  /// it always does.
  void beginChunk(mlir::Value first, mlir::Value rows, mlir::Value entersSaved) {
    this->first = first;
    this->rows = rows;
    this->entersSaved = entersSaved;
  }
  /// The value an accumulator enters the chunk with, and the one it leaves with.
  void setEntry(const Accumulator &accumulator, mlir::Value entry) {
    entries[&accumulator] = entry;
  }
  mlir::Value exitOf(const Accumulator &accumulator);
  /// Says that where `inRange` holds, no element of `gate`'s tile is -inf.
  void setRange(mlir::Value gate, mlir::Value inRange) { ranges[gate] = inRange; }

  /// The tile of a step value.
  mlir::Value tile(mlir::Value value, bool sliced);
  /// With zeros in rows and channels beyond the end.
  mlir::Value masked(mlir::Value value, bool sliced);
  /// Of a value that is constant in time: the number or the padded vector.
  mlir::Value constant(mlir::Value value, bool sliced);
  /// `tile` times the factors of what was read.
  mlir::Value scaled(mlir::Value tile, llvm::ArrayRef<mlir::Value> factors);

  /// The tile's type, or the padded vector's, of a step value of `type`.
  mlir::VectorType tileType(mlir::Type type, bool sliced);
  mlir::Type paddedType(mlir::Type type, bool sliced);
  /// The chunk's last row that is in the sequence.
  mlir::Value lastRow();
  /// The first channel of the slice's part of a vector of so many channels.
  mlir::Value channelOffset(int64_t channels, bool sliced);

private:
  mlir::Value makeTile(mlir::Value value, bool sliced);
  mlir::Value conditionTile(mlir::Value condition, mlir::VectorType type);
  mlir::Value gateGradient(GateGradientOp op, bool sliced);
  mlir::Value sumOver(mlir::Value tile);
  mlir::Value withNumbersScaled(mlir::Value tile, mlir::Value numbers);
  mlir::Value makeConstant(mlir::Value value, bool sliced);
  mlir::Value cloneOp(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands,
                      mlir::Type type);
  mlir::Value padded(mlir::arith::ConstantOp op, bool sliced);
  mlir::Value sumTile(const Accumulator &accumulator, unsigned k);
  /// Σ of an accumulator's terms, per step.
  mlir::Value termTile(const Accumulator &accumulator, unsigned count);
  mlir::Value withoutEntry(mlir::Value tile);

  const ChunkPlan &plan;
  tile::ProgramOp program;
  TileBuilder &prologue, &body;
  mlir::Value first, rows, entersSaved;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, mlir::Value> tiles, maskedTiles, constants;
  llvm::DenseMap<mlir::Operation *, mlir::Value> readTiles;
  llvm::DenseMap<mlir::Value, mlir::Value> ranges;
  llvm::DenseMap<const Accumulator *, mlir::Value> entries;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKTILES_H
