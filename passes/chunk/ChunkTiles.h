//===- ChunkTiles.h - a step's values as a chunk's tiles ----------*- C++ -*-===//
//
// Maps the values of a step to tiles of a chunk. A scalar becomes a vector over the chunk's steps;
// a vector becomes a matrix of steps and channels. A value that is constant in time stays a scalar
// or vector, and is broadcast where it meets one that is not. Channels are padded to a multiple of
// 16. The tile of a sliced vector has only the slice's channels. Rows past the end of the sequence
// load as zeros, but values computed from them may be nonzero; `masked` sets them to zero.
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
  /// `prologue` inserts before the loop over chunks, `body` inside it.
  ChunkTiles(const ChunkPlan &plan, tile::ProgramOp program, TileBuilder &prologue,
             TileBuilder &body)
      : plan(plan), program(program), prologue(prologue), body(body) {}

  /// Computes a chain's tiles when the first of its reads is needed. It calls `setRead` for each
  /// read.
  std::function<void(const StateChain &)> computeChain;
  void setRead(mlir::Operation *whole, mlir::Value tile) { readTiles[whole] = tile; }
  /// The same for a cancelling pair of a read; if the pair is only summed, `tile` has the sums of
  /// its rows.
  void setPairing(CancellingPairOp op, mlir::Value tile) { readTiles[op] = tile; }

  /// Begins a chunk at row `first`, with `rows` rows left in the sequence. `entersSaved` says
  /// whether the chunk is the first of a saved state in scan order; null if every chunk is.
  void beginChunk(mlir::Value first, mlir::Value rows, mlir::Value entersSaved) {
    this->first = first;
    this->rows = rows;
    this->entersSaved = entersSaved;
  }
  /// The value of an accumulator at the start and at the end of the chunk.
  void setEntry(const Accumulator &accumulator, mlir::Value entry) {
    entries[&accumulator] = entry;
  }
  mlir::Value exitOf(const Accumulator &accumulator);
  /// Declares that if `inRange` holds, no element of the tile of `gate` is -inf.
  void setRange(mlir::Value gate, mlir::Value inRange) { ranges[gate] = inRange; }

  /// The tile of a step value.
  mlir::Value tile(mlir::Value value, bool sliced);
  /// The same with zeros in rows and channels past the end.
  mlir::Value masked(mlir::Value value, bool sliced);
  /// The scalar or padded vector of a value that is constant in time.
  mlir::Value constant(mlir::Value value, bool sliced);
  /// `tile` times the multipliers of a read.
  mlir::Value scaled(mlir::Value tile, llvm::ArrayRef<mlir::Value> multipliers);

  /// The type of the tile, or of the padded vector, for a step value of `type`.
  mlir::VectorType tileType(mlir::Type type, bool sliced);
  mlir::Type paddedType(mlir::Type type, bool sliced);
  /// The last row of the chunk that is in the sequence.
  mlir::Value lastRow();
  /// The first channel of the slice, for a vector of `channels` channels.
  mlir::Value channelOffset(int64_t channels, bool sliced);

private:
  mlir::Value makeTile(mlir::Value value, bool sliced);
  mlir::Value conditionTile(mlir::Value condition, mlir::VectorType type);
  mlir::Value firstPosition();
  mlir::Value gateGradient(GateGradientOp op, bool sliced);
  mlir::Value sumOver(mlir::Value tile);
  mlir::Value withScalarsScaled(mlir::Value tile, mlir::Value scalars);
  mlir::Value makeConstant(mlir::Value value, bool sliced);
  mlir::Value cloneOp(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands,
                      mlir::Type type);
  mlir::Value padded(mlir::arith::ConstantOp op, bool sliced);
  mlir::Value sumTile(const Accumulator &accumulator, unsigned k);
  /// The sum of an accumulator's terms, per step.
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
