//===- PlanOrder.cpp - allocation, barriers, fences and waits --------------===//
#include "lowering/memory/MemoryPlanner.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void MemoryPlanner::fence() { FenceOp::create(b, loc); }

void MemoryPlanner::waitForCopies(unsigned pending) { WaitCopiesOp::create(b, loc, pending); }

void MemoryPlanner::passBarrier() {
  if (warpgroups && memory.pending.unfenced)
    fence();
  // All threads may overwrite the source of a completed bulk store after this barrier.
  unsigned enough = cost::elementsBeforeBulkStoreIsRead(isLong);
  awaitBulkStores([&](const SharedMemory::BulkStore &store) { return store.work >= enough; });
  memory.noteBarrier();
  loadsSinceBarrier.clear();
  // Operands of outstanding matmuls stay pending: a barrier does not wait for them.
  for (const InFlight &dot : inFlight)
    for (const Range &range : dot.reads)
      memory.noteRead(range);
}

void MemoryPlanner::barrier() {
  passBarrier();
  BarrierOp::create(b, loc);
}

/// Ranges that are read together are passed together, so that one barrier covers all.
void MemoryPlanner::beforeRead(ArrayRef<Range> ranges) {
  if (llvm::any_of(ranges, [&](auto &range) { return memory.readNeedsBarrier(range); }))
    barrier();
  for (const Range &range : ranges)
    memory.noteRead(range);
}

/// Waits until this thread's outstanding matmuls no longer read `range`.
void MemoryPlanner::awaitReaders(const Range &range) {
  for (const InFlight &dot : llvm::reverse(inFlight))
    if (llvm::any_of(dot.reads, [&](auto &read) { return read.overlaps(range); }))
      return awaitGroup(dot.group);
}

/// Waits until `range` is no longer used.
void MemoryPlanner::makeWritable(const Range &range) {
  awaitReaders(range);
  if (memory.hasBulkStore(range))
    awaitBulkStores(
        [&](const SharedMemory::BulkStore &store) { return store.range.overlaps(range); });
  if (memory.writeNeedsBarrier(range))
    barrier();
}

void MemoryPlanner::beforeWrite(const Range &range) {
  makeWritable(range);
  memory.noteWrite(range);
}

/// Waits for group `group` and all earlier ones.
void MemoryPlanner::awaitGroup(unsigned group) {
  auto done = [&](const InFlight &dot) { return dot.group <= group; };
  if (llvm::none_of(inFlight, done))
    return;
  WaitMatmulsOp::create(b, loc, groupsIssued - group);
  for (const InFlight &dot : inFlight)
    if (done(dot))
      tiles[dot.matmul].group = 0;
  llvm::erase_if(inFlight, done);
  releaseAwaited();
}

void MemoryPlanner::awaitAll() {
  if (!inFlight.empty())
    awaitGroup(groupsIssued);
}

/// Waits until the bulk stores for which `is` holds have read their source. The next barrier tells
/// all threads.
void MemoryPlanner::awaitBulkStores(llvm::function_ref<bool(const SharedMemory::BulkStore &)> is) {
  auto &bulkStores = memory.pending.bulkStores;
  std::optional<unsigned> left; // groups that may stay outstanding
  for (const SharedMemory::BulkStore &one : bulkStores)
    if (is(one))
      left = std::min(left.value_or(one.later), one.later);
  if (!left)
    return;
  WaitStoresOp::create(b, loc, *left);
  llvm::erase_if(bulkStores, [&](const SharedMemory::BulkStore &one) {
    if (one.later >= *left)
      memory.noteRead(one.range);
    return one.later >= *left;
  });
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

SmallVector<SharedMemory::Range> MemoryPlanner::justUsed() const {
  SmallVector<Range> used(memory.pending.reads);
  used.append(memory.pending.writes);
  used.append(memory.pending.bulkStoreRanges());
  llvm::erase_if(used, [](const Range &range) { return range.isOld; });
  for (const InFlight &dot : inFlight)
    used.append(dot.reads);
  return used;
}

/// If memory suffices, the source of a bulk store is not reused for other tiles. Otherwise the next
/// iteration would have to wait for a later store from the same range.
SmallVector<SharedMemory::Range> MemoryPlanner::avoidedFor(Type type, LayoutAttr layout) const {
  SmallVector<Range> used = justUsed(), all(used);
  all.append(bulkStoredFrom);
  return fitsFreely(type, layout, all)    ? all
         : fitsFreely(type, layout, used) ? used
                                          : SmallVector<Range>();
}

MemoryPlanner::Tile MemoryPlanner::newShared(Type type, LayoutAttr layout, Readers readers) {
  if (!layout)
    layout = LayoutAttr::get(b.getContext(), LayoutKind::shared, 0, 0);
  Range range = memory.allocate(sharedBytes(type, layout), sharedAlignment(layout),
                                avoidedFor(type, layout));
  range.needsFence = readers == Readers::units && isSwizzled(layout);
  allocatedRanges.push_back(range);
  return {type, layout.withPlace(range.begin), range};
}

/// The buffer of a value that a loop yields to its next iteration; null if no loop carries it.
const MemoryPlanner::Tile *MemoryPlanner::carriedPlace(Value value) {
  while (value.hasOneUse() && isa<scf::YieldOp, tile::YieldOp>(*value.user_begin())) {
    OpOperand &use = *value.use_begin();
    Operation *parent = use.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      Value arg = loop.getRegionIterArg(use.getOperandNumber());
      auto next = nextPlaces.find(arg);
      return next == nextPlaces.end() ? &this->use(arg) : &next->second;
    }
    value = parent->getResult(use.getOperandNumber());
  }
  return nullptr;
}

MemoryPlanner::Tile MemoryPlanner::sharedFor(Value value, LayoutAttr layout,
                                             Readers readers) {
  if (const Tile *place = carriedPlace(value))
    return *place;
  if (buffers.body && readers != Readers::threads && isSwizzled(layout) &&
      value.getParentBlock() == buffers.body) {
    buffers.tiles.insert(value);
    return allocateDoubleBuffer(value.getType(), layout, readers);
  }
  return newShared(value.getType(), layout, readers);
}
