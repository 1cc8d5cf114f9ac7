//===- TileLoops.cpp - a block program's loops and branches ----------------===//
#include "lowering/emit/TileEmitter.h"
#include "passes/program/RegisterPressure.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Takes values of `program`'s `values` from the front of `from`.
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

/// Whether ops under `op` read or write shared memory. In roles, those on rings wait for
/// each other by other means than barriers.
static bool touchesShared(Operation *op) {
  bool inRole = op->getParentOfType<RoleOp>() != nullptr;
  return op
      ->walk([&](Operation *inner) {
        // There is nothing to wait for.
        if (auto take = dyn_cast<TakeOp>(inner); take && take.getHeld())
          return WalkResult::advance();
        if (inRole && isa<AcquireOp, FillOp, TakeOp, ReleaseOp>(inner))
          return WalkResult::advance();
        return isa<TileDialect, vector::VectorDialect>(inner->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the first op of `body` that touches shared memory has a barrier anyway.
bool TileEmitter::beginsWithBarrier(Block &body) const {
  for (Operation &op : body)
    if (touchesShared(&op)) {
      auto take = dyn_cast<TakeOp>(op);
      return take && !take.getHeld() && !rings.lookup(take.getRing()).mbarriers.end;
    }
  return false;
}

/// Where a loop counts from, to and by: i32 where all of it is.
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
  // What is no more than something narrow may be far below 0; but of rows that are left no
  // chunk's start is 2^31 rows behind the end.
  bool isLeft = any([&](Value operand) {
    auto left = operand.getDefiningOp<arith::SubIOp>();
    return left && left.getLhs() == program.getLength();
  });
  if (!isLeft)
    to = b.max(to, b.i64(std::numeric_limits<int32_t>::min()));
  return {from, b.narrow(to), step};
}

/// Vectors that are made before `loop` and used behind it are made no later than here: else the
/// compiler would make them there, and have all that they are made of in registers meanwhile.
void TileEmitter::holdVectorsOver(scf::ForOp loop) {
  Block &block = *loop->getBlock();
  for (Operation &op : llvm::make_range(block.begin(), loop->getIterator()))
    for (Value result : op.getResults()) {
      auto type = dyn_cast<VectorType>(result.getType());
      auto tile = tiles.find(result);
      bool isHeld = type && type.getRank() == 1 && type.getElementType().isF32() &&
                    tile != tiles.end() && tile->second.elements.size() > 1 &&
                    llvm::any_of(result.getUsers(), [&](Operation *user) {
                      return loop->isBeforeInBlock(block.findAncestorOpInBlock(*user));
                    });
      if (isHeld)
        tile->second.elements = heldHere(tile->second.elements);
    }
}

/// Whether a block's last product reads `factor`.
static bool isReadLast(Value factor) {
  return llvm::any_of(factor.getUsers(), [](Operation *user) {
    Operation *behind = user->getNextNode();
    while (behind && !isa<DotOp>(behind))
      behind = behind->getNextNode();
    return isa<DotOp>(user) && !behind;
  });
}

/// Whether nothing but the device's stores use `tile`.
bool TileEmitter::isSentOnly(Value tile) const {
  return !tile.use_empty() &&
         llvm::all_of(tile.getUsers(), [&](Operation *user) { return sends.contains(user); });
}

/// Whether what is written for the next iteration would else wait until this one's is read: by
/// the last product, or by the device.
bool TileEmitter::mayTakeTurns(Value carried) const {
  return isPanels(layoutOf(carried)) && (isReadLast(carried) || isSentOnly(carried));
}

/// A tile like `like` in one of two places, `own` in iterations of even numbers, and in the other.
std::pair<Placed, Placed> TileEmitter::byTurns(const SharedMemory::Range &own,
                                               const SharedMemory::Range &next, const Placed &like,
                                               Value isOdd, Value isEven) {
  // Nothing is taken off an address, which hardware adds constants to.
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

/// Has the tiles that `op` carries in shared memory where they lie. The next iteration's may lie in
/// another place, by turns, so that they can be written while this one's are read: as laid-out
/// programs are checked, they are stored anew in each iteration, and handed on as nothing else.
TileEmitter::Turns TileEmitter::placeCarried(scf::ForOp op, Value counter) {
  bool counts = matchPattern(op.getLowerBound(), m_Zero()) && matchPattern(op.getStep(), m_One());
  Turns turns;
  for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    if (!isTile(arg) || !isInShared(layoutOf(arg)))
      continue;
    Placed own = placed(init);
    if (placesByTurns && counts && mayTakeTurns(arg)) {
      if (!turns.isOdd) {
        turns.isOdd = b.make<arith::AndIOp>(b.narrow(counter), b.i32(1));
        turns.isEven = b.make<arith::XOrIOp>(turns.isOdd, b.i32(1));
      }
      SharedMemory::Range other =
          memory.allocate(own.range.end - own.range.begin, sharedAlignment(own.layout));
      other.isFactor = true;
      turns.carried.push_back({own.range, other});
      // Where all that is carried so is stored, an iteration need have no barrier but one.
      if (isSentOnly(arg))
        turns.body = op.getBody();
      std::tie(own, nextPlaces[arg]) = byTurns(own.range, other, own, turns.isOdd, turns.isEven);
    }
    tiles[arg] = own;
  }
  return turns;
}

/// A place for a factor of the iteration's own products: the next iteration's is another one. Both
/// are theirs throughout the loop: what had been anywhere in its body before lies where it lies in
/// each iteration, whosever turn it is.
Placed TileEmitter::placeByTurns(Type type, LayoutAttr layout, bool isFactor) {
  Placed like;
  like.type = type;
  like.layout = layout;
  like.pitch = sharedPitch(type);
  ArrayRef<SharedMemory::Range> avoided = ArrayRef(handedOut).drop_front(turns.before);
  auto allocate = [&] {
    SharedMemory::Range range =
        memory.allocate(sharedBytes(type, layout), sharedAlignment(layout), avoided);
    range.isFactor = isFactor && isPanels(layout);
    return range;
  };
  SharedMemory::Range own = allocate(), other = allocate();
  turns.own.push_back({own, other});
  return byTurns(own, other, like, turns.isOdd, turns.isEven).first;
}

/// Iterations are ordered by a barrier at each one's head, or those that they need where it
/// is known what they touch.
void TileEmitter::emitFor(scf::ForOp op) {
  awaitAll();
  finishSums();
  holdVectorsOver(op);
  auto [from, to, step] = boundsOf(op);
  SmallVector<Value> inits = flatten(op.getInitArgs());
  SharedMemory::Pending before = memory.pending;
  auto loop = b.make<scf::ForOp>(from, to, step, inits);
  Turns outside = std::move(turns);
  {
    OpBuilder::InsertionGuard guard(b);
    Location outer = b.loc;
    b.setInsertionPointToStart(loop.getBody());
    ValueRange args = loop.getRegionIterArgs();
    scalars.map(op.getInductionVar(), loop.getInductionVar());
    bind(op.getRegionIterArgs(), args);
    turns = placeCarried(op, loop.getInductionVar());
    turns.before = handedOut.size();
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
    // The barrier at the head does not know what it must fence.
    if (warpgroups && !isOrdered && (!isKnown || loopEnds.haveBarriers) && memory.pending.unfenced)
      fenceForProducts();
    for (ArrayRef<Turn> places : {ArrayRef(turns.carried), ArrayRef(turns.own)})
      for (const auto &[own, next] : places)
        memory.pending.exchange(own, next);
    if (!isOrdered)
      loopEnds.found[op] = memory.pending;
    if (isKnown)
      loopEnds.wrong |= !(loopEnds.haveBarriers ? known->second.coversSent(memory.pending)
                                                : known->second.covers(memory.pending));
    // The next iteration does not know.
    if (!isKnown)
      awaitSent();
    // A loop made with no values to carry comes with its terminator.
    if (!next.empty())
      b.make<scf::YieldOp>(next);
    b.loc = outer;
  }
  // Whose turn it was is not known behind the loop.
  for (ArrayRef<Turn> places : {ArrayRef(turns.carried), ArrayRef(turns.own)})
    for (const auto &[own, next] : places) {
      SharedMemory::Pending otherwise = memory.pending;
      otherwise.exchange(own, next);
      memory.pending.add(otherwise);
    }
  for (const auto &[own, next] : turns.own) {
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
    auto turn = llvm::find_if(
        turns.carried, [&](const Turn &turn) { return turn.first.begin == place.range.begin; });
    tiles[result] = place;
    if (turn == turns.carried.end())
      continue;
    if (result.use_empty()) {
      memory.release(turn->second);
      continue;
    }
    // It is where an iteration more would have it; both places stay its own.
    if (!odd) {
      odd = b.make<arith::AndIOp>(b.narrow(to), b.i32(1));
      even = b.make<arith::XOrIOp>(odd, b.i32(1));
    }
    const auto &[own, next] = *turn;
    tiles[result] = byTurns(own, next, place, odd, even).first;
    tiles[result].range.begin = std::min(own.begin, next.begin);
    tiles[result].range.end = std::max(own.end, next.end);
  }
  turns = std::move(outside);
}

void TileEmitter::emitIf(scf::IfOp op) {
  awaitAll();
  finishSums();
  SmallVector<Type> types;
  for (Value result : op.getResults()) {
    Type type = getElementTypeOrSelf(result.getType());
    types.append(isTile(result) ? sizeOf(result.getType(), layoutOf(result)) : 1,
                 type.isIndex() ? b.getI64Type() : type);
  }
  auto branch =
      b.make<scf::IfOp>(types, scalar(op.getCondition()), /*withElseRegion=*/!!op.elseBlock());
  // Behind it is what either side has left.
  SharedMemory::Pending before = memory.pending, after;
  auto askedBefore = asked;
  decltype(asked) askedAfter;
  if (!op.elseBlock()) {
    after = before;
    askedAfter = asked;
  }
  auto emitBranch = [&](Block &from, Block *to) {
    OpBuilder::InsertionGuard guard(b);
    // What only the other side uses lies here for nothing.
    auto isUsed = [&](Value value) {
      return llvm::any_of(usersOfPlace(value), [&](Operation *user) {
        return from.getParent()->isAncestor(user->getParentRegion());
      });
    };
    SmallVector<SharedMemory::Range> unused;
    for (Value value : lastUses.lookup(op))
      if (auto it = tiles.find(value); it != tiles.end() && it->second.range.end && !isUsed(value))
        unused.push_back(it->second.range);
    for (const SharedMemory::Range &range : unused)
      memory.release(range);
    if (types.empty())
      b.setInsertionPoint(to->getTerminator());
    else
      b.setInsertionPointToStart(to);
    memory.pending = before;
    asked = askedBefore;
    // What follows from a thread's place is made where it is used: for the other side, and for
    // many products, it would take registers all through the loop around.
    auto outside = std::make_tuple(thread, lane, warp, warpgroup, group, member, inBranch);
    inBranch = op.elseBlock() != nullptr;
    if (warpgroups && inBranch && (&from == op.elseBlock() || hasManyMatmuls(from)))
      locateThread(heldHere(thread).front());
    emitBlock(from);
    std::tie(thread, lane, warp, warpgroup, group, member, inBranch) = outside;
    SmallVector<Value> results = flatten(from.getTerminator()->getOperands());
    awaitAll();
    finishSums();
    if (!types.empty())
      b.make<scf::YieldOp>(results);
    after.add(memory.pending);
    askedAfter.append(asked);
    for (const SharedMemory::Range &range : unused)
      memory.occupy(range);
  };
  emitBranch(*op.thenBlock(), branch.thenBlock());
  if (op.elseBlock())
    emitBranch(*op.elseBlock(), branch.elseBlock());
  memory.pending = after;
  asked = askedAfter;
  bind(op.getResults(), branch.getResults());
}
