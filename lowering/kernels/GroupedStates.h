//===- GroupedStates.h - states that a program's kernel shares by groups -*- C++ -*-===//
//
// A block program has a state for each query head. Where the query heads of a group have one state,
// the kernel reads it at the group's place, and the group's first head writes it there, so that no
// copies for each query head pass through memory.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_GROUPEDSTATES_H
#define EJK_LOWERING_KERNELS_GROUPEDSTATES_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"

namespace ejk {

/// The op whose states the kernel of `program` reads itself in the place of `initial`; null where
/// there is none.
RepeatHeadsOp startOfGroup(tile::ProgramOp program, mlir::Value initial);

/// The op whose result the kernel of `program` writes itself in the place of `final`; null where
/// there is none. A program that starts from an argument of the function has none: a caller may pass one
/// buffer for both, of which another block may still have to read its state.
FirstHeadsOp endOfGroup(tile::ProgramOp program, mlir::Value final);

/// Whether the kernel of a program does what `op` does, an `ejk.repeat_heads` or
/// `ejk.first_heads`.
bool isDoneByProgram(mlir::Operation *op);

/// Whether the kernel of `op` finds states by other ops.
bool hasGroupedStates(mlir::Operation *op);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_GROUPEDSTATES_H
