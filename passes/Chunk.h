//===- Chunk.h - a scan as a block program over chunks ------------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_H
#define EJK_PASSES_CHUNK_H

#include "dialect/Ejk.h"
#include "dialect/tile/Tile.h"

namespace ejk {

struct ChunkSettings {
  /// Steps in a chunk; a scan that saves states has as many as lie between two.
  int64_t chunk = 64;
  /// Take f32 too, with products in f32.
  bool force = false;
  /// Take what sums up over the sequence what was read.
  bool drift = false;
};

/// Makes a block program of `scan` behind it, which computes those of its results that
/// are used. Fails, with a remark that says why, when the scan is to be left alone.
mlir::FailureOr<tile::ProgramOp> chunkScan(ScanOp scan, const ChunkSettings &settings);

/// Puts `program`, made of `scan`, in its place: for all sequences, or for those of
/// several rows, by `tile.choose`.
void replaceScan(ScanOp scan, tile::ProgramOp program, bool forSeveralRows);

} // namespace ejk

#endif // EJK_PASSES_CHUNK_H
