//===- PlanMemory.h - places, barriers, fences and waits ----------*- C++ -*-===//
#ifndef EJK_LOWERING_MEMORY_PLANMEMORY_H
#define EJK_LOWERING_MEMORY_PLANMEMORY_H

#include "dialect/tile/Tile.h"
#include "lowering/target/Target.h"

namespace ejk {

/// The minimum of shared memory, in bytes, that a block of laid-out `program` needs, with or
/// without double buffers for matmul operands that loops carry. Leaves the program planned in some
/// way: it is a copy of no further use.
unsigned sharedMemoryNeed(tile::ProgramOp program, bool doubleBuffered = false);

/// Checks that `program` and its rings are laid out as a plan requires. Emits an error at the op if
/// not.
mlir::LogicalResult checkLaidOut(tile::ProgramOp program);

/// Checks that each tile of `program` in shared memory has a place inside the memory that it says it
/// needs, and that no op stores and loads again. Emission relies on it.
mlir::LogicalResult checkPlanned(tile::ProgramOp program);

/// Replaces laid-out `program` by its plan: the same with a place for each tile in shared memory,
/// and with all barriers, fences and waits. If the program can do with so little memory, as
/// many blocks fit on a multiprocessor of `target` as registers allow. Fails with an error at the program if
/// it needs more memory than a block may have. `kernel` names the program in remarks.
mlir::LogicalResult planMemory(tile::ProgramOp program, const Target &target, llvm::StringRef kernel);

/// Whether `module` holds plans, so that no pass before the plan may run on it: these keep neither
/// the layouts nor the order of what they change.
bool holdsPlans(mlir::ModuleOp module);

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_PLANMEMORY_H
