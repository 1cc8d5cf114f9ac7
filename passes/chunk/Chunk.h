//===- Chunk.h - a scan as a block program over chunks ------------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_CHUNK_H
#define EJK_PASSES_CHUNK_CHUNK_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"

namespace ejk {

struct ChunkSettings {
  /// Steps in a chunk; fewer where that does not divide those between saved states.
  int64_t chunk = 64;
  /// Take f32 too, with products in f32.
  bool force = false;
  /// Take what sums up over the sequence what was read.
  bool drift = false;
  /// What is saved, and read, is the state that a chunk is entered with; see
  /// `maySaveEntries`. Only where chunks divide the steps for which one is saved; the chunk
  /// is the one at their end.
  bool saveEntries = false;
  /// A head's decays are powers of two, and have constants that multiply what is read in their
  /// exponents: fewer instructions, and one more rounding of those. Not for products in f32.
  bool inExponents = false;
  /// Take what is computed in f32 from 16-bit rows: see `findOperandSources`.
  bool roundComputed = false;
};

/// Makes a block program of `scan` behind it, which computes those of its results that
/// are used. Fails, with a remark that says why, when the scan is to be left alone.
mlir::FailureOr<tile::ProgramOp> chunkScan(ScanOp scan, const ChunkSettings &settings);

/// That each chunk has a saved state of its own, and may save the state it is entered
/// with.
bool savesEntries(llvm::ArrayRef<ScanOp> group, int64_t chunk);

/// Puts `program`, made of `scan`, in its place.
void replaceScan(ScanOp scan, tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNK_H
