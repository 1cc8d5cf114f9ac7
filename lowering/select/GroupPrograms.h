//===- GroupPrograms.h - block programs of a group of scans --------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_GROUPPROGRAMS_H
#define EJK_LOWERING_SELECT_GROUPPROGRAMS_H

#include "lowering/select/ProgramFit.h"
#include "lowering/target/CostModel.h"
#include "passes/chunk/Chunk.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {

/// How the chunks of a group are computed.
struct ChunkForm {
  /// The algorithm of matmuls in f32; none where operands are rounded to 16 bits.
  std::optional<tile::DotAlgorithm> inF32 = std::nullopt;
  /// Of gates per channel without bounds (ChunkSettings); 0 for one basis a chunk. Such programs
  /// stand beside others, and their f32 matrices may have no stage.
  double strongGate = 0;
  /// The rows of the chunks of programs that take the saved states, if they are others
  /// (ChunkSettings).
  int64_t savedChunk = 0;
  /// Whether chunks save the states that they are entered with, where they divide the distance of
  /// saved states; if it is not given, the group says (savesEntries).
  std::optional<bool> maySaveEntries = std::nullopt;
};

/// Makes block programs of scans, in chunks and slices that fit a thread block.
class GroupPrograms {
public:
  struct Options {
    bool cpu = false, roundComputed = false;
    F32Matmuls f32Matmuls = F32Matmuls::none;
  };
  GroupPrograms(const Target &target, ProgramFit &fit, const Correcting &correcting,
                Options options)
      : target(target), fit(fit), correcting(correcting), options(options) {}

  /// The lengths of chunks that are tried, in order.
  llvm::ArrayRef<int64_t> lengths() const;
  /// The algorithm of f32 matmuls where a scan of `group` has operands that may not be rounded. All
  /// of them then have it: terms of theirs cancel, and must have the same rounding.
  std::optional<tile::DotAlgorithm> f32MatmulsOf(llvm::ArrayRef<ScanOp> group) const;
  ChunkSettings settingsFor(ScanOp scan, int64_t chunk, bool saveEntries,
                            const ChunkForm &form) const;

  /// A program of `scan` that saves the state that each chunk is entered with; none where it
  /// does not fit. Fails after an error.
  llvm::FailureOr<tile::ProgramOp> makeSaving(ScanOp scan, int64_t chunk);
  /// Programs of the group's scans in chunks of `chunk`; none where they do not fit, or where the
  /// longest chunks spill much, unless they `mayLackRegisters`; and false, after a remark, where no
  /// other chunks will do.
  llvm::FailureOr<bool> make(llvm::ArrayRef<ScanOp> group, int64_t chunk, bool mayLackRegisters,
                             const ChunkForm &form,
                             llvm::SmallVectorImpl<tile::ProgramOp> &programs);
  /// Where states are cut into slices, each of which loads rows again: puts programs of fewer,
  /// wider slices in the place of `programs`, in chunks as long or shorter, if they move fewer
  /// bytes and if shared memory and registers suffice. With `savesEveryEntry`, chunks of another
  /// length save as often.
  llvm::LogicalResult widenSlices(llvm::ArrayRef<ScanOp> group, const ChunkForm &form,
                                  bool savesEveryEntry,
                                  llvm::SmallVectorImpl<tile::ProgramOp> &programs);
  /// Whether `program`, or each kernel that it is cut into, fits with so many stages of rows. With
  /// `mayLoadLate`, f32 matrices may have no stage.
  llvm::FailureOr<bool> fits(tile::ProgramOp program, unsigned stages = 1,
                             bool mayLoadLate = false);

  /// A decision on `scan`, which depends on what the last program asked about needs.
  cost::Decision decide(ScanOp scan, llvm::StringRef name, const llvm::Twine &chosen) const;
  /// What the last program asked about needs, in words.
  std::string describeNeed(ScanOp scan) const { return ejk::describeNeed(scan, need, target); }

  const Target &target;
  /// What the last program asked about needs.
  KnownNeeds::Need need;
  /// Whether programs of the group at hand fitted that lacked registers.
  bool lackedRegisters = false;

private:
  llvm::FailureOr<bool> makeWider(llvm::ArrayRef<ScanOp> group, const ChunkForm &form,
                                  int64_t chunk, int64_t elements, int64_t fewest,
                                  llvm::SmallVectorImpl<tile::ProgramOp> &programs);

  ProgramFit &fit;
  const Correcting &correcting;
  Options options;
};

/// Has each scan that saves states save every `rows` rows.
void setSaveEvery(llvm::ArrayRef<ScanOp> scans, int64_t rows);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_GROUPPROGRAMS_H
