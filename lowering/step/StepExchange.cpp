//===- StepExchange.cpp - sums over columns, in a block with a whole state -===//
//
// Columns lie in the lanes of a warp and in several warps. A sum over them goes through lanes by
// shuffles, and through warps by shared memory. All these sums and exchanges of a step use one area
// of it, so that a barrier stands before each writes it, and another before each reads it.
//
//===----------------------------------------------------------------------===//
#include "lowering/step/StepEmitter.h"

using namespace mlir;
using namespace ejk;

Value StepEmitter::exchangeAt(Value offset) {
  unsigned area = plan.stages() * plan.stageFloats + plan.numReads * plan.partialFloats();
  return b.at(sharedBase(), b.getF32Type(), b.add(offset, area));
}

/// Whether the thread's columns are the first of its warp.
Value StepEmitter::isFirstColumnLane() {
  return b.less(b.rem(thread, kWarpSize), plan.rowLanes);
}

/// Combines the values of all threads that have the same rows: one for each row, or a number.
void StepEmitter::combineColumns(Tile &partial, Combine combine) {
  for (unsigned distance = plan.rowLanes; distance < kWarpSize; distance *= 2)
    for (Value &sum : partial) {
      auto shuffle =
          b.make<gpu::ShuffleOp>(sum, b.i32(distance), b.i32(kWarpSize), gpu::ShuffleMode::XOR);
      sum = combine(sum, shuffle.getShuffleResult());
    }
  if (plan.colWarps == 1)
    return;
  unsigned count = partial.size(), ofWarp = plan.rowLanes * count;
  auto place = [&](Value warp, unsigned i) {
    return exchangeAt(b.add(b.add(b.mul(warp, ofWarp), b.mul(rowSlot, count)), i));
  };
  b.make<gpu::BarrierOp>();
  Value warp = b.div(thread, kWarpSize);
  b.onlyIf(isFirstColumnLane(), [&] {
    for (auto [i, value] : llvm::enumerate(partial))
      b.store(value, place(warp, i));
  });
  // Numbers side by side are loaded by fours, one more than there are of three.
  if (ofWarp == 1 && !llvm::isPowerOf2_32(plan.colWarps))
    b.onlyIf(b.less(thread, 1), [&] {
      for (unsigned more = plan.colWarps; more < llvm::PowerOf2Ceil(plan.colWarps); ++more)
        b.store(b.f32(0.0), place(b.i32(more), 0));
    });
  b.make<gpu::BarrierOp>();
  for (auto [i, sum] : llvm::enumerate(partial)) {
    sum = b.load(b.getF32Type(), place(b.i32(0), i));
    for (unsigned warp = 1; warp < plan.colWarps; ++warp)
      sum = combine(sum, b.load(b.getF32Type(), place(b.i32(warp), i)));
  }
}

/// A vector along one axis, along the other. The state has as many rows as columns.
Tile StepEmitter::exchange(const Tile &tile, Layout from) {
  auto column = [&](unsigned j) { return b.add(localColumn, j); };
  bool toRows = from == Layout::column;
  b.make<gpu::BarrierOp>();
  Value isLeader = toRows ? b.equal(rowSlot, 0)
                          : b.both(isFirstColumnLane(), b.less(thread, kWarpSize));
  Type type = tile.front().getType();
  b.onlyIf(isLeader, [&] {
    for (auto [i, value] : llvm::enumerate(tile))
      b.store(value, exchangeAt(toRows ? column(i) : rowOf(i)));
  });
  b.make<gpu::BarrierOp>();
  Tile result;
  for (unsigned i = 0, e = toRows ? plan.rowsPerThread : plan.colsPerThread; i < e; ++i) {
    // Past the last channel, any value will do.
    Value channel = b.min(toRows ? rowOf(i) : column(i), b.i32(plan.rows - 1));
    result.push_back(b.load(type, exchangeAt(channel)));
  }
  return result;
}
