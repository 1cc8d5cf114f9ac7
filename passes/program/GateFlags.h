//===- GateFlags.h - whether gates are weak, by sequence and head --*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_GATEFLAGS_H
#define EJK_PASSES_PROGRAM_GATEFLAGS_H

#include "dialect/tile/Tile.h"
#include <optional>

namespace ejk {

/// Two tensors with a number for each sequence and head: 1 in `weak` and 0 in `strong` where the
/// gates of the first chunk, in the order of the scan, are in a part of the range of a program's
/// guard; 0 and 1 elsewhere.
struct GateFlags {
  mlir::Value weak, strong;
};

/// Creates, before `program`, a program that computes the flags with the guard of gates of
/// `program`'s loop over chunks, whose bound is multiplied by `share`. Rows after the first chunk
/// do not decide, so flags of a prefix are those of the whole. Nothing where there is no such
/// guard, or it depends on what the loop carries.
std::optional<GateFlags> makeGateFlags(tile::ProgramOp program, double share);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_GATEFLAGS_H
