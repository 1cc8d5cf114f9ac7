//===- FallBacks.h - shorter chunks for gates out of range -------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_FALLBACKS_H
#define EJK_LOWERING_SELECT_FALLBACKS_H

#include "lowering/select/GroupPrograms.h"
#include "mlir/IR/BuiltinOps.h"

namespace ejk {

/// Shorter chunks in the place of exact paths, for all programs of a group or for none: terms of the group's
/// scans cancel, so that all of them take the same path for the same rows.
class FallBacks {
public:
  FallBacks() = default;
  /// Makes a program in shorter chunks for each of `programs`, made of `scans`, that gates may
  /// leave the fast path of; none if one of them has no shorter one that takes strong gates, and
  /// none for CPUs, whose chunks are short.
  FallBacks(const GroupPrograms &makers, llvm::ArrayRef<ScanOp> scans,
            llvm::ArrayRef<tile::ProgramOp> programs, const ChunkForm &form);
  void drop();
  /// Replaces the programs by those that fall back (passes/program/FallBackToShortChunks.h), where
  /// none has fewer stages of rows in shared memory for that. `scan` is for remarks. Returns the
  /// number of programs.
  llvm::FailureOr<unsigned> take(ScanOp scan, GroupPrograms &makers);

private:
  /// `inputs` stand for what the shorter program takes: only its chunks are of use, and no other program is to
  /// keep a result for it.
  struct FallBack {
    tile::ProgramOp program, shorter;
    mlir::UnrealizedConversionCastOp inputs;
    bool isReverse;
  };
  llvm::SmallVector<FallBack> all;
};

} // namespace ejk

#endif // EJK_LOWERING_SELECT_FALLBACKS_H
