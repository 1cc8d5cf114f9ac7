//===- PlanLoops.cpp - a block program's loops and branches ------------------===//
//
// A tile in shared memory that a loop carries stays in its buffer; a matmul operand may have two
// buffers, so that the next iteration can write while this one's matmuls still read.
//
//===----------------------------------------------------------------------===//
#include "lowering/memory/MemoryPlanner.h"
#include "lowering/layout/SpilledToShared.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether ops under `op` access shared memory such that barriers must order it. In
/// warp-specialised code mbarriers order the accesses to rings.
static bool touchesShared(Operation *op) {
  bool inPartition = op->getParentOfType<PartitionOp>() != nullptr;
  return op
      ->walk([&](Operation *inner) {
        // The item was taken before.
        if (auto take = dyn_cast<TakeOp>(inner); take && take.getHeld())
          return WalkResult::advance();
        if (inPartition && isa<AcquireOp, FillOp, PutOp, TakeOp, ReleaseOp>(inner))
          return WalkResult::advance();
        return isa<TileDialect, vector::VectorDialect>(inner->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the first op of `body` that accesses shared memory starts with a barrier itself.
bool MemoryPlanner::beginsWithBarrier(Block &body) const {
  for (Operation &op : body)
    if (touchesShared(&op)) {
      auto take = dyn_cast<TakeOp>(op);
      return take && !take.getHeld() && !rings.lookup(take.getRing()).hasMbarriers;
    }
  return false;
}

/// Whether the last matmul of a block reads `operand`.
static bool isReadLast(Value operand) {
  return llvm::any_of(operand.getUsers(), [](Operation *user) {
    Operation *after = user->getNextNode();
    while (after && !isa<DotOp>(after))
      after = after->getNextNode();
    return isa<DotOp>(user) && !after;
  });
}

/// Whether all users of `tile` are TMA stores.
static bool isOnlyBulkStored(Value tile) {
  return !tile.use_empty() && llvm::all_of(tile.getUsers(), [](Operation *user) {
    auto store = dyn_cast<StoreOp>(user);
    return store && store.getBulk();
  });
}

/// Whether the store for the next iteration would have to wait for this iteration's readers: the
/// last matmul or a TMA store. A double buffer then removes the wait.
bool MemoryPlanner::needsDoubleBuffer(Value carried) const {
  return isSwizzled(layoutOf(carried)) && (isReadLast(carried) || isOnlyBulkStored(carried));
}

/// Gives the tiles that `op` carries in shared memory their buffers, and double-buffers matmul
/// operands. Overwriting the next buffer early is safe: checkCarried has verified that each
/// iteration stores the tile anew and only the yield uses it.
MemoryPlanner::DoubleBuffers MemoryPlanner::placeCarried(scf::ForOp op) {
  bool counts = matchPattern(op.getLowerBound(), m_Zero()) && matchPattern(op.getStep(), m_One());
  DoubleBuffers buffers;
  for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    if (!isTile(arg) || !isInShared(layoutOf(arg)))
      continue;
    Tile own = use(init);
    if (doubleBuffered && counts && needsDoubleBuffer(arg)) {
      Range other =
          memory.allocate(own.range.end - own.range.begin, sharedAlignment(own.layout));
      other.needsFence = own.range.needsFence;
      buffers.carried.push_back({own.range, other});
      // If the carried tile is only stored, double-buffering the body's other operands leaves one
      // barrier per iteration.
      if (isOnlyBulkStored(arg))
        buffers.body = op.getBody();
      nextPlaces[arg] = {own.type, own.layout.withPlace(other.begin, own.range.begin), other};
      own.layout = own.layout.withPlace(own.range.begin, other.begin);
    }
    tiles[arg] = own;
  }
  return buffers;
}

/// A double buffer for a matmul operand that one iteration writes and reads. Both buffers are
/// allocated for the whole loop. They may not overlap any tile allocated earlier in the body: such
/// a tile has a fixed place in each iteration, whatever the parity.
MemoryPlanner::Tile MemoryPlanner::allocateDoubleBuffer(Type type, LayoutAttr layout,
                                                        Readers readers) {
  ArrayRef<Range> avoided = ArrayRef(allocatedRanges).drop_front(buffers.before);
  auto allocate = [&] {
    Range range = memory.allocate(sharedBytes(type, layout), sharedAlignment(layout), avoided);
    range.needsFence = readers == Readers::units && isSwizzled(layout);
    return range;
  };
  Range own = allocate(), other = allocate();
  buffers.own.push_back({own, other});
  return {type, layout.withPlace(own.begin, other.begin), own};
}

/// Whether `op` is a loop over shorter chunks in an exact path, each of which has loops itself.
static bool isOfShorterChunks(scf::ForOp op) {
  return isOnExactPath(op) &&
         op.getBody()->walk([](scf::ForOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// The buffers of tiles that a loop carries, which are free while `op` runs, a loop on one side of
/// its branch: this side reads none of them, and stores the next iteration's tiles after `op`.
SmallVector<SharedMemory::Range> MemoryPlanner::buffersFreeDuring(scf::ForOp op) const {
  Branch branch = Branch::of(op->getParentOp());
  auto around = branch ? dyn_cast<scf::ForOp>(branch->getParentOp()) : scf::ForOp();
  SmallVector<Range> ranges;
  if (!around)
    return ranges;
  for (auto [arg, next] : llvm::zip(around.getRegionIterArgs(), around.getYieldedValues())) {
    auto it = tiles.find(arg);
    auto result = dyn_cast<OpResult>(next);
    if (it == tiles.end() || !it->second.range.end || nextPlaces.contains(arg) || !result ||
        result.getOwner() != branch.getOperation())
      continue;
    Value given = op->getBlock()->getTerminator()->getOperand(result.getResultNumber());
    Operation *maker = given.getDefiningOp();
    bool isLater = maker && maker->getBlock() == op->getBlock() && op->isBeforeInBlock(maker);
    if (isLater && llvm::none_of(arg.getUsers(), [&](Operation *user) {
          return op->getParentRegion()->isAncestor(user->getParentRegion());
        }))
      ranges.push_back(it->second.range);
  }
  return ranges;
}

/// Accesses of two iterations are ordered by a barrier at the loop head, or, if `loopEnds` knows
/// the pending accesses, by the barriers that these need. A loop over shorter chunks, which hardly runs, always
/// has the barrier: what is known of the loop around it is then found in few rounds.
void MemoryPlanner::visitFor(scf::ForOp op) {
  awaitAll();
  finishSums();
  SharedMemory::Pending before = memory.pending;
  auto loadsBefore = loadsSinceBarrier;
  DoubleBuffers outside = std::move(buffers);
  SmallVector<Range> free = buffersFreeDuring(op);
  for (const Range &range : free)
    memory.release(range);
  for (Value arg : op.getRegionIterArgs())
    if (isTile(arg))
      makeInRegisters(arg);
  buffers = placeCarried(op);
  buffers.before = allocatedRanges.size();
  unsigned number = loopNumbers.lookup(op);
  bool isOrdered = !touchesShared(op) || beginsWithBarrier(*op.getBody());
  bool mayBeKnown = !isOfShorterChunks(op);
  auto known = loopEnds.known.find(number);
  bool isKnown = mayBeKnown && known != loopEnds.known.end();
  if (isKnown)
    memory.pending.add(known->second, /*isOld=*/loopEnds.areInPlace);
  b.setInsertionPointToStart(op.getBody());
  if (!isOrdered && (!isKnown || loopEnds.haveBarriers))
    barrier();
  visitBlock(*op.getBody());
  Operation *end = op.getBody()->getTerminator();
  b.setInsertionPoint(end);
  for (unsigned i = 0; i < end->getNumOperands(); ++i)
    if (isTile(end->getOperand(i)))
      use(end->getOperand(i));
  awaitAll();
  finishSums();
  // The barrier at the loop head is inserted before it is known that a fence is needed.
  if (warpgroups && !isOrdered && (!isKnown || loopEnds.haveBarriers) && memory.pending.unfenced)
    fence();
  for (ArrayRef<BufferPair> places : {ArrayRef(buffers.carried), ArrayRef(buffers.own)})
    for (const auto &[own, next] : places)
      memory.pending.exchange(own, next);
  if (!isOrdered && mayBeKnown)
    loopEnds.found[number] = memory.pending;
  if (isKnown)
    loopEnds.wrong |= !(loopEnds.haveBarriers ? known->second.coversBulkStores(memory.pending)
                                              : known->second.covers(memory.pending));
  // The next iteration does not know of outstanding bulk stores.
  if (!isKnown)
    awaitBulkStores();

  // After the loop either buffer may be the current one.
  for (ArrayRef<BufferPair> places : {ArrayRef(buffers.carried), ArrayRef(buffers.own)})
    for (const auto &[own, next] : places) {
      SharedMemory::Pending otherwise = memory.pending;
      otherwise.exchange(own, next);
      memory.pending.add(otherwise);
    }
  for (const auto &[own, next] : buffers.own) {
    memory.release(own);
    memory.release(next);
  }
  // There may be no iteration.
  memory.pending.add(before);
  loadsSinceBarrier.append(loadsBefore);
  b.setInsertionPointAfter(op);
  for (auto [result, arg, init] :
       llvm::zip(op.getResults(), op.getRegionIterArgs(), op.getInitArgs())) {
    if (!isTile(result))
      continue;
    if (!isInShared(layoutOf(result))) {
      makeInRegisters(result);
      continue;
    }
    setPlace(result, tiles[arg].layout);
    Tile place = use(init);
    auto pair = llvm::find_if(buffers.carried, [&](const BufferPair &each) {
      return each.first.begin == place.range.begin;
    });
    if (pair != buffers.carried.end()) {
      const auto &[own, next] = *pair;
      if (result.use_empty()) {
        memory.release(next);
      } else {
        // Both buffers stay allocated.
        place.layout = tiles[arg].layout;
        place.range.begin = std::min(own.begin, next.begin);
        place.range.end = std::max(own.end, next.end);
      }
    }
    tiles[result] = place;
  }
  buffers = std::move(outside);
  for (const Range &range : free)
    memory.occupy(range);
}

void MemoryPlanner::visitBranch(Branch op) {
  awaitAll();
  finishSums();
  // After the branch, the accesses of both sides are pending.
  SharedMemory::Pending before = memory.pending, after;
  auto loadsBefore = loadsSinceBarrier;
  decltype(loadsSinceBarrier) loadsAfter;
  if (!op.elseBlock()) {
    after = before;
    loadsAfter = loadsSinceBarrier;
  }
  auto visitSide = [&](Block &side) {
    // Tiles that only the other branch uses are dead in this one.
    auto isUsed = [&](Value value) {
      return llvm::any_of(usersOfPlace(value), [&](Operation *user) {
        return side.getParent()->isAncestor(user->getParentRegion());
      });
    };
    SmallVector<Range> unused;
    for (Value value : lastUses.lookup(op.getOperation()))
      if (auto it = tiles.find(value); it != tiles.end() && it->second.range.end && !isUsed(value))
        unused.push_back(it->second.range);
    for (const Range &range : unused)
      memory.release(range);
    memory.pending = before;
    loadsSinceBarrier = loadsBefore;
    visitBlock(side);
    Operation *end = side.getTerminator();
    b.setInsertionPoint(end);
    for (unsigned i = 0; i < end->getNumOperands(); ++i)
      if (isTile(end->getOperand(i)))
        use(end->getOperand(i));
    awaitAll();
    finishSums();
    // Shorter chunks hardly run. They end with a barrier, so that the fast path needs none for them, unless
    // each chunk has one to take its rows.
    bool takeHasBarrier = llvm::any_of(op->getBlock()->getOps<TakeOp>(), [&](TakeOp take) {
      return !rings.lookup(take.getRing()).hasMbarriers;
    });
    bool isPending = !memory.pending.reads.empty() || !memory.pending.writes.empty();
    if (!takeHasBarrier && isPending && llvm::any_of(side.getOps<scf::ForOp>(), isOfShorterChunks))
      barrier();
    after.add(memory.pending);
    loadsAfter.append(loadsSinceBarrier);
    for (const Range &range : unused)
      memory.occupy(range);
  };
  visitSide(*op.thenBlock());
  if (op.elseBlock())
    visitSide(*op.elseBlock());
  memory.pending = after;
  loadsSinceBarrier = loadsAfter;
  b.setInsertionPointAfter(op.getOperation());
  Operation *end = op.thenBlock()->getTerminator();
  for (auto [result, given] : llvm::zip(op->getResults(), end->getOperands()))
    if (isTile(result)) {
      if (isInShared(layoutOf(result)))
        setPlace(result, layoutOf(given));
      makeInRegisters(result); // or in the buffer of the loop that carries it
    }
}
