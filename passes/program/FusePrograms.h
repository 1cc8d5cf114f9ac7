//===- FusePrograms.h - two programs in one loop over a sequence --*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_FUSEPROGRAMS_H
#define EJK_PASSES_PROGRAM_FUSEPROGRAMS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// A program that saves the state of each chunk, and one that computes the rest.
struct FusedPrograms {
  tile::ProgramOp states, all;
  /// Which final states of the first program are sums over its chunks. `all` gives them after its own.
  llvm::SmallVector<unsigned> sums;
};

/// Fuses two programs (ejk-fuse-programs). Creates programs after `second` that together compute
/// what `first` and `second` do, and leaves those in place. Fails if they cannot be fused.
mlir::FailureOr<FusedPrograms> fusePrograms(tile::ProgramOp first, tile::ProgramOp second);

/// Replaces the original programs by the fused ones.
void replacePrograms(tile::ProgramOp first, tile::ProgramOp second, FusedPrograms fused);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_FUSEPROGRAMS_H
