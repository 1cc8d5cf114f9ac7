//===- StrongGates.h - programs for strong gates beside those for weak -*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_STRONGGATES_H
#define EJK_LOWERING_SELECT_STRONGGATES_H

#include "lowering/select/FallBacks.h"
#include "passes/program/GateFlags.h"

namespace ejk {

/// Whether a scan of `function` has gates per channel that may be too strong for chunks with one
/// basis, and too weak to need blocks.
bool mayChooseByGates(mlir::func::FuncOp function);

/// The programs of a group of scans in chunks by blocks (passes/chunk/ChunkedState.h), beside those
/// with one basis a chunk. A kernel of its own looks at the gates of each head's first chunk. The
/// heads that leave the range there are computed by the former, all others by the latter.
class StrongGates {
public:
  /// Makes them for `scans`, of which `programs` were made, which have not taken the scans' place
  /// yet. What else uses the scans' results uses theirs from now on. With `savesEveryEntry`, chunks
  /// of another length save as often; with `maySaveEntries`, they save what they are entered with.
  /// In a function for weak gates the programs skip all heads, so that it has the kernels of the
  /// function that chooses. Other functions have no such programs, nor has a group whose gates
  /// cannot be too strong, or for which none fits. Fails after an error.
  static llvm::FailureOr<StrongGates> make(GroupPrograms &makers, llvm::ArrayRef<ScanOp> scans,
                                           llvm::ArrayRef<tile::ProgramOp> programs,
                                           bool maySaveEntries, bool savesEveryEntry);
  bool exist() const { return !strong.empty(); }
  /// Completes the pairs once the scans are replaced: each program skips the heads of its
  /// counterpart. `weak` has these programs if there is one for each scan, as before.
  void join(llvm::ArrayRef<tile::ProgramOp> weak);
  /// Has the programs fall back to shorter chunks. Returns how many do.
  llvm::FailureOr<unsigned> takeFallBacks(ScanOp scan, GroupPrograms &makers) {
    return fallBacks.take(scan, makers);
  }

private:
  llvm::FailureOr<bool> makePrograms(GroupPrograms &makers, llvm::ArrayRef<ScanOp> scans,
                                     int64_t weakChunk, bool maySaveEntries, bool savesEveryEntry);
  llvm::LogicalResult markApart(GroupPrograms &makers);
  bool connect(llvm::ArrayRef<ScanOp> scans, llvm::ArrayRef<tile::ProgramOp> programs);
  void erase();

  llvm::SmallVector<tile::ProgramOp> strong;
  /// Programs of the function that are none of the group's.
  llvm::DenseSet<mlir::Operation *> others;
  GateFlags flags;
  FallBacks fallBacks;
};

} // namespace ejk

#endif // EJK_LOWERING_SELECT_STRONGGATES_H
