//===- CutFront.h - a chunk's front as a kernel of its own ------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_CUTFRONT_H
#define EJK_PASSES_PROGRAM_CUTFRONT_H

#include "passes/program/SplitByState.h"

namespace ejk {

/// What a front computes.
enum class Front {
  scaledRows, ///< rows times exponentials of sums of gates, and a chunk's sums of gates
  products    ///< matmuls and sums of products of rows, and their results
};

/// Divides `program` into a front over `segments`, which computes once what each slice of a state
/// would, and what has the state. Creates both before `program`, which stays. Nothing where no tile
/// can be handed over.
std::optional<ProgramsByState> cutFront(tile::ProgramOp program, Front kind, SegmentsAttr segments);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_CUTFRONT_H
