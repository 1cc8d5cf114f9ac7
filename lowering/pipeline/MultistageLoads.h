//===- MultistageLoads.h - rows copied ahead of the loop that reads them -----===//
#ifndef EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H
#define EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H

#include "dialect/tile/Tile.h"
#include <optional>

namespace ejk {

/// What ejk-multistage-loads did to a program.
struct StagedLoads {
  unsigned rings = 0, staged = 0;
  /// Bytes of shared memory that the rings' mbarriers take, if roles are to use them.
  unsigned mbarrierBytes() const { return 128 * rings; }
  /// Loads of loops over chunks that stay, and why.
  llvm::SmallVector<std::pair<tile::LoadOp, llvm::StringRef>> declined;
};

/// Copies the rows of `program`'s loops through rings of `stages` stages; with `apart`, those
/// that only branches use through rings of their own.
StagedLoads multistageLoads(tile::ProgramOp program, unsigned stages, bool apart = false);

/// Whether `op`, laid out, is taken as products are: running sums of matrices are, too.
bool isProduct(mlir::Operation *op);

/// How many items `item` is ahead of the one that `counter` counts, as a constant added to
/// it says; null where it is not known.
std::optional<int64_t> itemsAhead(mlir::Value counter, mlir::Value item);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_MULTISTAGELOADS_H
