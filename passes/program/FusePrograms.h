//===- FusePrograms.h - two walks of one sequence in one loop -----*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_FUSEPROGRAMS_H
#define EJK_PASSES_PROGRAM_FUSEPROGRAMS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// A program that saves the state of each chunk, and one that computes the rest.
struct FusedPrograms {
  tile::ProgramOp states, all;
};

/// See ejk-fuse-programs. Makes programs behind `second` that together compute what
/// `first` and `second` do, and leaves those in place; failure where they cannot be
/// fused.
mlir::FailureOr<FusedPrograms> fusePrograms(tile::ProgramOp first, tile::ProgramOp second);

/// Puts the fused programs in the place of those they were made of.
void replacePrograms(tile::ProgramOp first, tile::ProgramOp second, FusedPrograms fused);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_FUSEPROGRAMS_H
