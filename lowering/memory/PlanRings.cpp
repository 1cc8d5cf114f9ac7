//===- PlanRings.cpp - waits and barriers of rings ---------------------------===//
//
// Without mbarriers, one barrier makes an item visible to all threads and orders all uses of
// earlier items. Copies are committed as one group per item:
//
//   acquire   a barrier, unless there was one since the last release
//   take      wait for this thread's groups up to the item's; barrier
//   release   noted, no code
//
// With mbarriers, the ops themselves wait and arrive, and a put fences what it has stored. A release
// stands where no outstanding matmul reads the stage any more.
//
//===----------------------------------------------------------------------===//
#include "lowering/memory/MemoryPlanner.h"
#include "lowering/memory/RingLayout.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

void MemoryPlanner::visitMakeRing(MakeRingOp op) {
  Ring &ring = rings[op.getRing()];
  RingLayout layout = RingLayout::of(op);
  ring.range = memory.allocate(layout.bytes, layout.alignment);
  ring.usesTma = op.getTma();
  for (Operation *user : op->getUsers())
    if (isa<TakeOp>(user))
      ring.range.needsFence |= llvm::any_of(
          user->getResults(), [&](Value tile) { return readersOf(tile) == Readers::units; });
  op.setPlace(ring.range.begin);
  ring.hasMbarriers = ring.usesTma || hasPartitions(program);
  if (ring.hasMbarriers) {
    ring.mbarriers = memory.allocate(layout.mbarrierBytes());
    op.setMbarriers(ring.mbarriers.begin);
  }
  // Earlier tiles in this range may still be read.
  makeWritable(ring.range);
  if (!ring.usesTma || hasPartitions(program))
    return; // the block meets where partitions begin
  makeWritable(ring.mbarriers);
  b.setInsertionPointAfter(op);
  // TMA must not overtake earlier stores of threads to this range.
  fence();
  memory.pending.unfenced = false;
  barrier();
}

/// Ends a ring after its last use. Its last copies may still be outstanding.
void MemoryPlanner::endRing(Value value) {
  const Ring &ring = rings[value];
  if (hasPartitions(program))
    return; // the program ends here, and each partition has waited
  if (!value.getDefiningOp<MakeRingOp>().getMbarriers()) // else each take has waited
    waitForCopies(0);
  memory.noteWrite(ring.range);
  memory.release(ring.range);
}

/// How many copy groups may still be outstanding when the item of `take` is complete: the fewest
/// groups that are committed after it in any iteration. Found by simulating the first iterations of
/// a loop that takes items by its counter; 0 if unknown.
static unsigned groupsAfter(TakeOp take) {
  auto loop = dyn_cast<scf::ForOp>(take->getParentOp());
  if (!loop)
    return 0;
  std::optional<int64_t> taken = itemsAhead(loop.getInductionVar(), take.getItem());
  if (!taken)
    return 0;
  // The fills before the loop, and those in it with their distance to the counter.
  struct Fill {
    Value ring;
    int64_t item;
    bool isAfterTake;
  };
  SmallVector<Fill> before, inside;
  APInt number;
  auto isGroup = [&](FillOp fill) { return !fill.getRing().getDefiningOp<MakeRingOp>().getTma(); };
  for (auto fill : loop->getBlock()->getOps<FillOp>())
    if (fill->isBeforeInBlock(loop) && isGroup(fill)) {
      if (!matchPattern(fill.getItem(), m_ConstantInt(&number)))
        return 0;
      before.push_back({fill.getRing(), number.getSExtValue(), false});
    }
  int64_t furthest = 0;
  for (auto fill : loop.getBody()->getOps<FillOp>()) {
    if (!isGroup(fill))
      continue;
    std::optional<int64_t> ahead = itemsAhead(loop.getInductionVar(), fill.getItem());
    if (!ahead)
      return 0;
    furthest = std::max(furthest, *ahead);
    inside.push_back({fill.getRing(), *ahead, take->isBeforeInBlock(fill)});
  }
  for (Operation *user : take.getRing().getUsers())
    if (isa<FillOp>(user) && user->getBlock() != loop.getBody() &&
        (user->getBlock() != loop->getBlock() || !user->isBeforeInBlock(loop)))
      return 0;
  // Groups in commit order: the item for the ring of `take`, null for other rings.
  SmallVector<std::optional<int64_t>> committed;
  auto commit = [&](const Fill &fill, int64_t counter) {
    bool isOwn = fill.ring == take.getRing();
    committed.push_back(isOwn ? std::optional(fill.item + counter) : std::nullopt);
  };
  for (const Fill &fill : before)
    commit(fill, 0);
  unsigned fewest = std::numeric_limits<unsigned>::max();
  for (int64_t counter = 0; counter <= furthest + 1; ++counter) {
    for (const Fill &fill : inside)
      if (!fill.isAfterTake)
        commit(fill, counter);
    auto place = llvm::find(committed, std::optional(counter + *taken));
    if (place == committed.end())
      return 0;
    fewest = std::min<unsigned>(fewest, committed.end() - place - 1);
    for (const Fill &fill : inside)
      if (fill.isAfterTake)
        commit(fill, counter);
  }
  return fewest;
}

/// Whether an item may be released between `take` and `acquire`.
static bool isReleasedBetween(TakeOp take, AcquireOp acquire) {
  for (Operation *op = take; op != acquire; op = op->getNextNode())
    if (op->walk([&](ReleaseOp release) {
            return release.getRing() == take.getRing() ? WalkResult::interrupt()
                                                       : WalkResult::advance();
          }).wasInterrupted())
      return true;
  return false;
}

/// Whether the barrier of an earlier take orders `acquire` after all uses of its stage. That is so
/// if the acquired item is less than N ahead of the counter: its stage was last used in an earlier
/// iteration.
static bool followsTake(AcquireOp acquire) {
  auto loop = dyn_cast<scf::ForOp>(acquire->getParentOp());
  if (!loop)
    return false;
  std::optional<int64_t> ahead = itemsAhead(loop.getInductionVar(), acquire.getItem());
  int64_t stages = acquire.getRing().getType().getStages();
  return ahead && llvm::any_of(acquire.getRing().getUsers(), [&](Operation *user) {
           auto take = dyn_cast<TakeOp>(user);
           if (!take || take.getHeld() || take->getBlock() != acquire->getBlock() ||
               !take->isBeforeInBlock(acquire) || isReleasedBetween(take, acquire))
             return false;
           std::optional<int64_t> taken = itemsAhead(loop.getInductionVar(), take.getItem());
           return taken && *ahead > *taken && *ahead < stages;
         });
}

void MemoryPlanner::visitAcquire(AcquireOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.hasMbarriers) {
    if (!followsTake(op))
      makeWritable(ring.range);
    return;
  }
  // The filling lane will wait for `empty`. A release of its own must not be pending then, or it
  // would wait for itself.
  if (ring.usesTma && llvm::any_of(pendingReleases, [&](ReleaseOp release) {
        return release.getRing() == op.getRing();
      }))
    awaitReaders(ring.range);
}

void MemoryPlanner::visitPut(PutOp op) {
  for (Value tile : op.getTiles())
    use(tile);
  beforeRead(readsOf(op));
}

void MemoryPlanner::visitTake(TakeOp op) {
  const Ring &ring = rings[op.getRing()];
  // An earlier take made a held item visible to all threads.
  if (!op.getHeld() && !ring.hasMbarriers) {
    waitForCopies(groupsAfter(op));
    // The barrier itself fences if other stores are unfenced.
    if (warpgroups && ring.range.needsFence && !memory.pending.unfenced)
      fence();
    barrier();
  }
  // The tiles share the ring's range, because ops on the ring order accesses to all of it.
  for (Value value : op.getTiles())
    tiles[value] = {value.getType(), layoutOf(value), ring.range};
}

void MemoryPlanner::visitRelease(ReleaseOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.hasMbarriers) {
    memory.noteRead(ring.range);
    return;
  }
  pendingReleases.push_back(op);
  releaseAwaited();
}

/// Puts a release here.
void MemoryPlanner::arriveAtEmpty(ReleaseOp op) {
  const Ring &ring = rings[op.getRing()];
  // An arrival orders accesses of threads. TMA could still overwrite a stage from which a load is
  // outstanding, so fence.
  if (ring.usesTma && llvm::any_of(loadsSinceBarrier, [&](const auto &read) {
        return read.second.overlaps(ring.range) && !(read.first && hasArrived(read.first));
      }))
    fence();
  if (Block::iterator(op) != b.getInsertionPoint())
    op->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
}

/// Whether the load of `tile` has certainly completed: on the way to here, which another path of a
/// branch is not, a matmul of it has been waited for, or sums of it have been stored.
bool MemoryPlanner::hasArrived(Value tile) {
  Block *here = b.getInsertionBlock();
  return llvm::any_of(tile.getUsers(), [&](Operation *user) {
    if (OpTrait::hasElementwiseMappableTraits(user))
      return hasArrived(user->getResult(0));
    bool isOnWay =
        user->getBlock() == here || user->getBlock()->findAncestorOpInBlock(*here->getParentOp());
    if (!isOnWay || !isa<DotOp, tile::SumOp, PartialSumOp>(user))
      return false;
    Value result = user->getResult(0);
    auto made = tiles.find(result);
    return made != tiles.end() &&
           (isa<DotOp>(user) ? made->second.group == 0 : !isRows(layoutOf(result)));
  });
}

/// Puts releases here whose stage no outstanding matmul reads any more.
void MemoryPlanner::releaseAwaited() {
  llvm::erase_if(pendingReleases, [&](ReleaseOp op) {
    if (isRead(rings[op.getRing()].range))
      return false;
    arriveAtEmpty(op);
    return true;
  });
}

bool MemoryPlanner::isRead(const Range &range) {
  return llvm::any_of(inFlight, [&](const InFlight &dot) {
    return llvm::any_of(dot.reads, [&](auto &read) { return read.overlaps(range); });
  });
}

/// The block meets once inside the op, when the rings' mbarriers are initialised.
void MemoryPlanner::visitPartitions(WarpSpecializeOp op) {
  passBarrier();
  for (auto partition : op.getBody().getOps<PartitionOp>()) {
    memory.pending = {};
    loadsSinceBarrier.clear();
    visitBlock(partition.getBody().front());
    b.setInsertionPointToEnd(&partition.getBody().front());
    awaitAll();
    awaitBulkStores();
    // A thread must not exit with outstanding copies.
    if (partition.walk([](FillOp) { return WalkResult::interrupt(); }).wasInterrupted())
      waitForCopies(0);
    // Nothing tells other partitions when this one is done with its memory.
    memory.occupyAll();
  }
}
