//===- Accesses.h - accesses of an op to shared memory ------------*- C++ -*-===//
//
// The one definition of an access, which the planner (MemoryPlanner.h) and the checker of plans
// (CheckRaces.cpp) share.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_MEMORY_ACCESSES_H
#define EJK_LOWERING_MEMORY_ACCESSES_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Who accesses a tile, and when the access is over.
enum class Agent {
  threads,   // when the op is
  copies,    // `cp.async` of a thread: when tile.wait_copies has waited for it
  matmuls,   // `wgmma`: when tile.wait_matmuls has waited for it
  bulkStores // TMA: when tile.wait_stores has waited for it
};

struct Access {
  mlir::Value tile;
  bool writes;
  Agent agent;
  /// Whether the access is not through threads: it sees their stores after a tile.fence.
  bool isAsyncProxy() const { return agent == Agent::matmuls || agent == Agent::bulkStores; }
};

/// The accesses of `op` to tiles in shared memory, in a program whose rings and stores say whether
/// they use TMA; reads first. Rings have accesses of their own.
llvm::SmallVector<Access> accessesOf(mlir::Operation *op);

/// Whether `op`, which inverts or merges blocks of a matrix, leaves the result in the matrix's place.
bool isInPlace(mlir::Operation *op);

/// The `wgmma` groups that `op` issues.
unsigned groupsOf(mlir::Operation *op);

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_ACCESSES_H
