//===- LiveRanges.h - shorter live ranges of tiles ----------------*- C++ -*-===//
//
// Transformations that ejk-schedule-matmuls applies to a laid-out program to reduce register
// pressure. They sink, hoist, reload or rematerialise ops, so that no tile is live in registers
// longer than it must be.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PIPELINE_LIVERANGES_H
#define EJK_LOWERING_PIPELINE_LIVERANGES_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk {

/// The ops of a block but its terminator.
llvm::SmallVector<mlir::Operation *> opsOf(mlir::Block &block);

/// Whether `op` is better computed late, because its result takes more registers than its operands:
/// a load from shared memory, a broadcast, a widening, elementwise ops on such alone, or an op
/// whose only use is a reduction.
bool canWait(mlir::Operation *op);

/// The registers that `value` occupies per thread while it is live.
int64_t registersOf(mlir::Value value);

/// Moves uses of `loop`'s initial tiles, or of an earlier loop's results, before `loop` if they do
/// not depend on it. Those tiles are then not live during the loop.
void hoistUsesOfInits(mlir::scf::ForOp loop);

/// Shortens live ranges of tiles: rows are extracted right after their tile is computed, and
/// branches reload tiles that were stored to shared memory.
void shortenTileRanges(tile::ProgramOp program);

/// Sinks loads from shared memory and widenings into the branches that use them.
void sinkLoadsIntoBranches(tile::ProgramOp program);

/// Sinks ops that can wait to their first use; in branches of `mma.sync` matmuls, ops on vectors,
/// too. Loads and widenings are rematerialised for uses after a matmul.
void sinkToUses(mlir::Block &block);

/// Reloads matmul operands from shared memory for uses in registers after another matmul, instead
/// of keeping them live.
void reloadOperands(mlir::Block &block);

/// Moves ops up, past matmuls, if that ends live ranges of more registers than it starts: sums,
/// stores to memory, rounding. For blocks whose ops otherwise keep the program's order.
void endRangesEarly(mlir::Block &block);

/// Where the next matmul waits for a matmul's result, moves all elementwise ops on that result before
/// the next matmul, so that its registers are free then. The same after matmuls that read a tile in
/// registers: they hold it until they are waited for.
void useResultsEarly(mlir::Block &block);

/// Moves matmuls of loaded rows up: those before an inversion to the start, so that they run while
/// sums and exponentials of gates do; those after it before its first step, beside which they run,
/// and what follows from them alone behind that step. H200, the forward of a delta rule with a gate
/// per head: 0.497 -> 0.494 ms at 4,4096,64 heads; in the middle of the inversion the same, behind
/// it with its results there 0.537.
void issueMatmulsEarly(mlir::Block &block);

/// Rematerialises elementwise ops on the exact path for each use, if their operands can wait or are
/// live anyway.
void rematerialise(mlir::Block &block);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_LIVERANGES_H
