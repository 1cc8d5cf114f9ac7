//===- TileStages.cpp - rows copied ahead of the loop that reads them ------===//
//
// Loads of a loop over chunks whose rows follow from the loop's counter alone
// are copied to shared memory one iteration ahead, without passing registers:
//
//   copy the first iteration's rows to stage 0
//   for each iteration c, in stage p = 0, 1, 0, …:
//     wait for this thread's copies; barrier        all rows of c are there, and
//     copy iteration c+1's rows to stage 1-p        nobody reads stage 1-p any more
//     the iteration, reading stage p
//   wait
//
// Rows of an iteration that does not come lie outside the sequence, or are of no
// use: they are zeros or never read. With one stage, each iteration copies its
// own rows between two barriers.
//
//===----------------------------------------------------------------------===//
#include "lowering/TileEmitter.h"
#include "lowering/TileMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether the index `value` of `loop`'s body follows from its counter and what
/// is known before it.
static bool followsFromCounter(Value value, scf::ForOp loop) {
  if (!loop.getRegion().isAncestor(value.getParentRegion()))
    return true;
  if (value == loop.getInductionVar())
    return true;
  Operation *def = value.getDefiningOp();
  return def && def->getNumRegions() == 0 && isMemoryEffectFree(def) &&
         isa<arith::ArithDialect>(def->getDialect()) &&
         llvm::all_of(def->getOperands(), [&](Value v) { return followsFromCounter(v, loop); });
}

TileStages TileEmitter::planStages(scf::ForOp op) {
  TileStages plan;
  if (!isa<ProgramOp>(op->getParentOp()))
    return plan;
  plan.counter = op.getInductionVar();
  for (auto load : op.getBody()->getOps<LoadOp>()) {
    if (!isInShared(layoutOf(load)) || copyBytes(load.getRows().getType(), load.getChannel()) < 4 ||
        !followsFromCounter(load.getFirst(), op) || !followsFromCounter(load.getChannel(), op))
      continue;
    unsigned alignment = sharedAlignment(layoutOf(load));
    plan.alignment = std::max(plan.alignment, alignment);
    plan.bytes = unsigned(llvm::alignTo(plan.bytes, alignment));
    plan.loads.push_back(load);
    plan.offsets.push_back(plan.bytes);
    plan.bytes += sharedBytes(load.getType(), layoutOf(load));
    staged.insert(load);
  }
  plan.bytes = unsigned(llvm::alignTo(plan.bytes, plan.alignment));
  return plan;
}

/// `index` of the program as an i64, made anew for the counter in `known`.
Value TileEmitter::indexFor(Value index, IRMapping &known) {
  if (Value value = known.lookupOrNull(index))
    return value;
  Operation *def = index.getDefiningOp();
  bool outside = scalars.contains(index);
  if (outside || !def)
    return scalar(index);
  for (Value operand : def->getOperands())
    known.map(operand, indexFor(operand, known));
  Value value = b.clone(*def, known)->getResult(0);
  known.map(index, value);
  return value;
}

/// A load's rows in a stage, of no range: the loop's barriers order it.
Placed TileEmitter::stagedTile(LoadOp load, Value address) {
  Placed tile;
  tile.layout = layoutOf(load);
  tile.type = load.getType();
  tile.pitch = sharedPitch(tile.type);
  tile.address = address;
  return tile;
}

void TileEmitter::fillStage(TileStages &plan, Value counter, Value stage) {
  IRMapping known;
  known.map(plan.counter, counter);
  Value base = b.at(sharedAt(plan.range), b.getI8Type(), b.mul(stage, plan.bytes));
  auto wide = [&](Value index) {
    return b.make<arith::IndexCastOp>(b.getI64Type(), indexFor(index, known));
  };
  for (auto [load, offset] : llvm::zip(plan.loads, plan.offsets))
    copyRows(load, wide(load.getFirst()), wide(load.getChannel()),
             stagedTile(load, b.at(base, b.getI8Type(), offset)));
  b.make<NVVM::CpAsyncCommitGroupOp>();
}

/// The head of an iteration; `stage` is null where there is only one.
void TileEmitter::enterStage(TileStages &plan, Value counter, Value step, Value stage) {
  if (stage) {
    waitForCopies();
    if (warpgroups)
      fenceForProducts();
    barrier();
    fillStage(plan, b.make<arith::AddIOp>(counter, step), b.sub(b.i32(1), stage));
  } else {
    barrier();
    fillStage(plan, counter, b.i32(0));
    waitForCopies();
    if (warpgroups)
      fenceForProducts();
    barrier();
  }
  Value base = sharedAt(plan.range);
  if (stage)
    base = b.at(base, b.getI8Type(), b.mul(stage, plan.bytes));
  for (auto [load, offset] : llvm::zip(plan.loads, plan.offsets))
    tiles[load] = stagedTile(load, b.at(base, b.getI8Type(), offset));
}

void TileEmitter::waitForCopies() { b.make<NVVM::CpAsyncWaitGroupOp>(0); }
