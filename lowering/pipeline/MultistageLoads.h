//===- MultistageLoads.h - multi-stage copies to shared memory ----*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H
#define EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H

#include "dialect/tile/Tile.h"
#include <optional>

namespace ejk {

/// What ejk-multistage-loads did to a program.
struct StagedLoads {
  unsigned rings = 0, staged = 0;
  /// Bytes of shared memory for the rings' mbarriers, if warps are specialised.
  unsigned mbarrierBytes() const { return 128 * rings; }
  /// Loads in loops over chunks that were not staged, with the reason.
  llvm::SmallVector<std::pair<tile::LoadOp, llvm::StringRef>> declined;
};

/// Turns loads in `program`'s loops into copies through rings of `stages` stages. With `apart`,
/// rows that only branches use get rings of their own. Without `wide`, f32 matrices have no stage:
/// they are loaded where they are used, and once more on the exact path. With `refills`, rows are
/// copied into a stage at the end of the iteration that releases it.
StagedLoads multistageLoads(tile::ProgramOp program, unsigned stages, bool apart = false,
                            bool wide = true, bool refills = false);

/// Whether tensor cores compute `op`: a matmul, or the cumsum of a matrix.
bool runsOnTensorCores(mlir::Operation *op);

/// The constant distance of `item` from the loop's `counter`; null if it is not known.
std::optional<int64_t> itemsAhead(mlir::Value counter, mlir::Value item);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H
