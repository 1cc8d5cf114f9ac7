//===- TileLoops.cpp - a block program's loops and branches ----------------===//
//
// Emits scf.for, scf.if and tile.guarded. A tile in registers becomes one loop-carried value per
// element. A tile in shared memory stays in its buffer; a matmul operand may have two
// buffers, so that the next iteration can write while this one's matmuls still read.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "passes/program/RegisterPressure.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Binds `values` of the program to kernel values taken from the front of `from`.
void TileEmitter::bind(ValueRange values, ValueRange from) {
  for (Value value : values) {
    if (!isTile(value)) {
      scalars.map(value, from.front());
      from = from.drop_front();
      continue;
    }
    Placed tile;
    tile.layout = layoutOf(value);
    tile.type = value.getType();
    unsigned size = sizeOf(tile.type, tile.layout);
    tile.elements.assign(from.begin(), from.begin() + size);
    from = from.drop_front(size);
    tiles[value] = tile;
  }
}

SmallVector<Value> TileEmitter::flatten(ValueRange values) {
  SmallVector<Value> flat;
  for (Value value : values)
    if (isTile(value))
      flat.append(placed(value).elements);
    else
      flat.push_back(value.getType().isIndex() ? wideIndex(value) : scalar(value));
  return flat;
}

/// Whether ops under `op` access shared memory such that barriers must order it. In
/// warp-specialised code mbarriers order the accesses to rings.
static bool touchesShared(Operation *op) {
  bool inPartition = op->getParentOfType<PartitionOp>() != nullptr;
  return op
      ->walk([&](Operation *inner) {
        // The item was taken before.
        if (auto take = dyn_cast<TakeOp>(inner); take && take.getHeld())
          return WalkResult::advance();
        if (inPartition && isa<AcquireOp, FillOp, TakeOp, ReleaseOp>(inner))
          return WalkResult::advance();
        return isa<TileDialect, vector::VectorDialect>(inner->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the first op of `body` that accesses shared memory starts with a barrier itself.
bool TileEmitter::beginsWithBarrier(Block &body) const {
  for (Operation &op : body)
    if (touchesShared(&op)) {
      auto take = dyn_cast<TakeOp>(op);
      return take && !take.getHeld() && !rings.lookup(take.getRing()).mbarriers.end;
    }
  return false;
}

/// Bounds and step of a loop: i32 if all of them are.
std::array<Value, 3> TileEmitter::boundsOf(scf::ForOp op) {
  Value from = scalar(op.getLowerBound()), to = scalar(op.getUpperBound()),
        step = scalar(op.getStep());
  auto isNarrow = [](Value value) { return value.getType().isInteger(32); };
  if (from.getType() == step.getType() && to.getType() == step.getType())
    return {from, to, step};
  auto least = op.getUpperBound().getDefiningOp<arith::MinSIOp>();
  auto any = [&](llvm::function_ref<bool(Value)> is) {
    return least && llvm::any_of(least->getOperands(), is);
  };
  if (!isNarrow(from) || !isNarrow(step) ||
      !any([&](Value operand) { return isNarrow(scalar(operand)); }))
    return {wideIndex(op.getLowerBound()), wideIndex(op.getUpperBound()), wideIndex(op.getStep())};
  // The minimum with an i32 may still be far below 0, so it is clamped. The number of remaining
  // rows needs no clamp: no chunk starts 2^31 rows past the end.
  bool isLeft = any([&](Value operand) {
    auto left = operand.getDefiningOp<arith::SubIOp>();
    return left && left.getLhs() == program.getLength();
  });
  if (!isLeft)
    to = b.max(to, b.i64(std::numeric_limits<int32_t>::min()));
  return {from, b.narrow(to), step};
}

/// Materialises vectors that are defined before `loop` and used after it. Otherwise LLVM would sink
/// their computation past the loop and keep all of their inputs live in registers during it.
void TileEmitter::materializeVectorsBefore(scf::ForOp loop) {
  Block &block = *loop->getBlock();
  for (Operation &op : llvm::make_range(block.begin(), loop->getIterator()))
    for (Value result : op.getResults()) {
      auto type = dyn_cast<VectorType>(result.getType());
      auto tile = tiles.find(result);
      bool isLiveAcross = type && type.getRank() == 1 && type.getElementType().isF32() &&
                          tile != tiles.end() && tile->second.elements.size() > 1 &&
                          llvm::any_of(result.getUsers(), [&](Operation *user) {
                            return loop->isBeforeInBlock(block.findAncestorOpInBlock(*user));
                          });
      if (isLiveAcross)
        tile->second.elements = materializeHere(tile->second.elements);
    }
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
bool TileEmitter::isOnlyBulkStored(Value tile) const {
  return !tile.use_empty() &&
         llvm::all_of(tile.getUsers(), [&](Operation *user) { return tmaStores.contains(user); });
}

/// Whether the store for the next iteration would have to wait for this iteration's readers: the
/// last matmul or a TMA store. A double buffer then removes the wait.
bool TileEmitter::needsDoubleBuffer(Value carried) const {
  return isSwizzled(layoutOf(carried)) && (isReadLast(carried) || isOnlyBulkStored(carried));
}

/// Two tiles like `like`: the first lies in `own` in even iterations and in `next` in odd ones, the
/// second in the other buffer.
std::pair<Placed, Placed> TileEmitter::bufferPair(const SharedMemory::Range &own,
                                                  const SharedMemory::Range &next,
                                                  const Placed &like, Value isOdd, Value isEven) {
  // Offsets are never negative, because only then can hardware fold constants into addresses.
  unsigned low = std::min(own.begin, next.begin);
  bool isLow = own.begin == low;
  int64_t distance = std::max(own.begin, next.begin) - low;
  Value base = sharedAt({low, low});
  auto placeAt = [&](const SharedMemory::Range &range, Value isFar) {
    Placed tile = like;
    tile.range = range;
    tile.address = b.at(base, b.getI8Type(), b.mul(isFar, distance));
    return tile;
  };
  return {placeAt(own, isLow ? isOdd : isEven), placeAt(next, isLow ? isEven : isOdd)};
}

/// Binds the tiles that `op` carries in shared memory to their buffers, and double-buffers matmul
/// operands. Overwriting the next buffer early is safe: checkCarried has verified that each
/// iteration stores the tile anew and only the yield uses it.
TileEmitter::DoubleBuffers TileEmitter::placeCarried(scf::ForOp op, Value counter) {
  bool counts = matchPattern(op.getLowerBound(), m_Zero()) && matchPattern(op.getStep(), m_One());
  DoubleBuffers buffers;
  for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    if (!isTile(arg) || !isInShared(layoutOf(arg)))
      continue;
    Placed own = placed(init);
    if (doubleBuffered && counts && needsDoubleBuffer(arg)) {
      if (!buffers.isOdd) {
        buffers.isOdd = b.make<arith::AndIOp>(b.narrow(counter), b.i32(1));
        buffers.isEven = b.make<arith::XOrIOp>(buffers.isOdd, b.i32(1));
      }
      SharedMemory::Range other =
          memory.allocate(own.range.end - own.range.begin, sharedAlignment(own.layout));
      other.isMatmulOperand = true;
      buffers.carried.push_back({own.range, other});
      // If the carried tile is only stored, double-buffering the body's other operands leaves one
      // barrier per iteration.
      if (isOnlyBulkStored(arg))
        buffers.body = op.getBody();
      std::tie(own, nextPlaces[arg]) =
          bufferPair(own.range, other, own, buffers.isOdd, buffers.isEven);
    }
    tiles[arg] = own;
  }
  return buffers;
}

/// A double buffer for a matmul operand that one iteration writes and reads. Both buffers are
/// allocated for the whole loop. They may not overlap any tile allocated earlier in the body: such
/// a tile has a fixed place in each iteration, whatever the parity.
Placed TileEmitter::allocateDoubleBuffer(Type type, LayoutAttr layout, bool isMatmulOperand) {
  Placed like;
  like.type = type;
  like.layout = layout;
  like.pitch = sharedPitch(type);
  ArrayRef<SharedMemory::Range> avoided = ArrayRef(allocatedRanges).drop_front(buffers.before);
  auto allocate = [&] {
    SharedMemory::Range range =
        memory.allocate(sharedBytes(type, layout), sharedAlignment(layout), avoided);
    range.isMatmulOperand = isMatmulOperand && isSwizzled(layout);
    return range;
  };
  SharedMemory::Range own = allocate(), other = allocate();
  buffers.own.push_back({own, other});
  return bufferPair(own, other, like, buffers.isOdd, buffers.isEven).first;
}

/// Accesses of two iterations are ordered by a barrier at the loop head, or, if `loopEnds` knows
/// the pending accesses, by the barriers that these need.
void TileEmitter::emitFor(scf::ForOp op) {
  awaitAll();
  finishSums();
  materializeVectorsBefore(op);
  auto [from, to, step] = boundsOf(op);
  SmallVector<Value> inits = flatten(op.getInitArgs());
  SharedMemory::Pending before = memory.pending;
  auto loop = b.make<scf::ForOp>(from, to, step, inits);
  DoubleBuffers outside = std::move(buffers);
  {
    OpBuilder::InsertionGuard guard(b);
    Location outer = b.loc;
    b.setInsertionPointToStart(loop.getBody());
    ValueRange args = loop.getRegionIterArgs();
    scalars.map(op.getInductionVar(), loop.getInductionVar());
    bind(op.getRegionIterArgs(), args);
    buffers = placeCarried(op, loop.getInductionVar());
    buffers.before = allocatedRanges.size();
    bool isOrdered = !touchesShared(op) || beginsWithBarrier(*op.getBody());
    auto known = loopEnds.known.find(op);
    bool isKnown = known != loopEnds.known.end();
    if (isKnown)
      memory.pending.add(known->second, /*isOld=*/loopEnds.areInPlace);
    if (!isOrdered && (!isKnown || loopEnds.haveBarriers))
      barrier();
    emitBlock(*op.getBody());
    SmallVector<Value> next = flatten(op.getBody()->getTerminator()->getOperands());
    awaitAll();
    finishSums();
    // The barrier at the loop head is emitted before it is known that a fence is needed.
    if (warpgroups && !isOrdered && (!isKnown || loopEnds.haveBarriers) && memory.pending.unfenced)
      fenceForMatmuls();
    for (ArrayRef<BufferPair> places : {ArrayRef(buffers.carried), ArrayRef(buffers.own)})
      for (const auto &[own, next] : places)
        memory.pending.exchange(own, next);
    if (!isOrdered)
      loopEnds.found[op] = memory.pending;
    if (isKnown)
      loopEnds.wrong |= !(loopEnds.haveBarriers ? known->second.coversBulkStores(memory.pending)
                                                : known->second.covers(memory.pending));
    // The next iteration does not know of outstanding bulk stores.
    if (!isKnown)
      awaitBulkStores();
    // A loop without iter_args is built with its terminator.
    if (!next.empty())
      b.make<scf::YieldOp>(next);
    b.loc = outer;
  }
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
  memory.pending.add(before);
  bind(op.getResults(), loop.getResults());
  Value odd, even;
  for (auto [result, init] : llvm::zip(op.getResults(), op.getInitArgs())) {
    if (!isTile(result) || !isInShared(layoutOf(result)))
      continue;
    Placed place = placed(init);
    auto pair = llvm::find_if(buffers.carried, [&](const BufferPair &each) {
      return each.first.begin == place.range.begin;
    });
    tiles[result] = place;
    if (pair == buffers.carried.end())
      continue;
    if (result.use_empty()) {
      memory.release(pair->second);
      continue;
    }
    // The result lies in the buffer that one more iteration would use; both buffers stay allocated.
    if (!odd) {
      odd = b.make<arith::AndIOp>(b.narrow(to), b.i32(1));
      even = b.make<arith::XOrIOp>(odd, b.i32(1));
    }
    const auto &[own, next] = *pair;
    tiles[result] = bufferPair(own, next, place, odd, even).first;
    tiles[result].range.begin = std::min(own.begin, next.begin);
    tiles[result].range.end = std::max(own.end, next.end);
  }
  buffers = std::move(outside);
}

void TileEmitter::emitBranch(Branch op) {
  awaitAll();
  finishSums();
  SmallVector<Type> types;
  for (Value result : op->getResults()) {
    Type type = getElementTypeOrSelf(result.getType());
    types.append(isTile(result) ? sizeOf(result.getType(), layoutOf(result)) : 1,
                 type.isIndex() ? b.getI64Type() : type);
  }
  auto branch =
      b.make<scf::IfOp>(types, scalar(op.getCondition()), /*withElseRegion=*/!!op.elseBlock());
  // After the `if`, the accesses of both branches are pending.
  SharedMemory::Pending before = memory.pending, after;
  auto loadsBefore = loadsSinceBarrier;
  decltype(loadsSinceBarrier) loadsAfter;
  if (!op.elseBlock()) {
    after = before;
    loadsAfter = loadsSinceBarrier;
  }
  auto emitSide = [&](Block &from, Block *to) {
    OpBuilder::InsertionGuard guard(b);
    // Tiles that only the other branch uses are dead in this one.
    auto isUsed = [&](Value value) {
      return llvm::any_of(usersOfPlace(value), [&](Operation *user) {
        return from.getParent()->isAncestor(user->getParentRegion());
      });
    };
    SmallVector<SharedMemory::Range> unused;
    for (Value value : lastUses.lookup(op.getOperation()))
      if (auto it = tiles.find(value); it != tiles.end() && it->second.range.end && !isUsed(value))
        unused.push_back(it->second.range);
    for (const SharedMemory::Range &range : unused)
      memory.release(range);
    if (types.empty())
      b.setInsertionPoint(to->getTerminator());
    else
      b.setInsertionPointToStart(to);
    memory.pending = before;
    loadsSinceBarrier = loadsBefore;
    // Values that derive from the thread index are recomputed in this branch. Shared with the other
    // branch, they would be live in registers throughout the enclosing loop.
    auto outside = std::make_tuple(thread, lane, warp, warpgroup, group, member, inBranch);
    inBranch = op.elseBlock() != nullptr;
    if (warpgroups && inBranch && (&from == op.elseBlock() || hasManyMatmuls(from)))
      locateThread(materializeHere(thread).front());
    emitBlock(from);
    std::tie(thread, lane, warp, warpgroup, group, member, inBranch) = outside;
    SmallVector<Value> results = flatten(from.getTerminator()->getOperands());
    awaitAll();
    finishSums();
    if (!types.empty())
      b.make<scf::YieldOp>(results);
    after.add(memory.pending);
    loadsAfter.append(loadsSinceBarrier);
    for (const SharedMemory::Range &range : unused)
      memory.occupy(range);
  };
  emitSide(*op.thenBlock(), branch.thenBlock());
  if (op.elseBlock())
    emitSide(*op.elseBlock(), branch.elseBlock());
  memory.pending = after;
  loadsSinceBarrier = loadsAfter;
  bind(op->getResults(), branch.getResults());
}
