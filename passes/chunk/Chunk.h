//===- Chunk.h - a scan as a block program over chunks ------------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_CHUNK_H
#define EJK_PASSES_CHUNK_CHUNK_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "passes/F32Matmuls.h"

namespace ejk {

struct ChunkSettings {
  /// The number of steps in a chunk. A chunk is shorter if this does not divide the distance of
  /// saved states.
  int64_t chunk = 64;
  /// Also accept f32 rows, with matmuls in f32, which only the interpreter computes.
  bool force = false;
  /// Take all operands in f32, whatever rows they come from, with matmuls of this algorithm.
  std::optional<tile::DotAlgorithm> f32Matmuls = std::nullopt;
  /// Also accept scans that sum, over the whole sequence, what was read from a state.
  bool drift = false;
  /// Save and read the state at the start of a chunk; see `maySaveEntries`. Requires that chunks
  /// divide the distance of saved states; the state is that of the last chunk of each.
  bool saveEntries = false;
  /// With it, for a scan that is not in reverse: save the states that chunks of so many rows are
  /// entered with, a multiple of a chunk's, for programs that have such chunks; 0 for the own.
  int64_t savedChunk = 0;
  /// Compute a head's decays as powers of two, and put constant multiples of reads into their
  /// exponents. This saves instructions and rounds those constants once more. Not for matmuls in
  /// f32.
  bool inExponents = false;
  /// Also accept operands computed in f32 from 16-bit rows: see `findOperandSources`.
  bool roundComputed = false;
  /// Tiles of more than 64 columns have a multiple of so many; those past the channels are zeros.
  /// With 64 they are whole blocks of TMA and `wgmma`.
  int64_t columnBlock = 32;
  /// Sum the gates of channels from a chunk's first row on, not from its middle row. The state is
  /// then read as it is, without a decay, and the range guard has half as many nats for a row.
  bool sumFromStart = false;
  /// How strong gates per channel are taken to be whose bounds are not known, in nats a row; 0
  /// where chunks have one basis. A range guard then looks at the sums of each block. Scans that
  /// cannot go by blocks are refused.
  double strongGate = 0;
  /// The scan is in a function of which a scan corrects its state (`findCorrecting`).
  bool corrects = false;
  /// The most state elements that one program carries; wider states are cut into slices.
  int64_t stateElements = 128 * 128;
};

/// The algorithm of f32 matmuls; none where there are to be none.
std::optional<tile::DotAlgorithm> algorithmOf(F32Matmuls matmuls);

/// Creates a block program after `scan` that computes the results of `scan` that are used. Fails
/// with a remark that says why if the scan is not supported.
mlir::FailureOr<tile::ProgramOp> chunkScan(ScanOp scan, const ChunkSettings &settings);

/// Whether gates per channel may leave the range of a chunk of so many rows: their bounds do not say
/// that they stay in it.
bool mayLeaveRange(ScanOp scan, int64_t chunk);

/// Whether each chunk of the scans has a saved state of its own and may save the state at its
/// start. `may` says whether it may, where the scans' saved states have other users by now.
bool savesEntries(llvm::ArrayRef<ScanOp> group, int64_t chunk,
                  std::optional<bool> may = std::nullopt);

/// Replaces `scan` by `program`, which chunkScan created from it.
void replaceScan(ScanOp scan, tile::ProgramOp program);

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNK_H
