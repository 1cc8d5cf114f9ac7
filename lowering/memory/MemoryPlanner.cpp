//===- MemoryPlanner.cpp - the pass over a program, and most of its ops ------===//
#include "lowering/memory/MemoryPlanner.h"
#include "lowering/kernels/Neighbours.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/SummedParts.h"
#include "lowering/memory/Accesses.h"
#include "lowering/pipeline/TmaTiles.h"
#include "passes/program/RegisterPressure.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

MemoryPlanner::MemoryPlanner(ProgramOp program, llvm::function_ref<bool(unsigned)> isUsed,
                             unsigned freeBytes, bool doubleBuffered, LoopEnds &loopEnds)
    : program(program), b(program.getContext()), loc(program.getLoc()), freeBytes(freeBytes),
      doubleBuffered(doubleBuffered), loopEnds(loopEnds),
      warps(program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt()),
      warpgroups(program->hasAttr(kWarpgroupsAttr)) {
  unsigned number = 0;
  for (ValueRange args : {program.getOutputArgs(), program.getFinalArgs(), program.getSaveArgs()})
    for (Value arg : args)
      if (!isUsed(number++))
        unstored.insert(arg);
  if (usesTmaLoads(program)) {
    for (auto ring : program.getBlock().getOps<MakeRingOp>())
      ring.setTma(!isOfComputedTiles(ring));
    for (StoreOp store : findTmaStores(program))
      if (!unstored.contains(argOf(store.getRows())))
        store.setBulk(true);
  }
}

unsigned MemoryPlanner::run() {
  program.walk([&](Block *block) { isLong |= hasManyMatmuls(*block); });
  program.walk([&](scf::ForOp loop) { loopNumbers[loop] = loopNumbers.size(); });
  summedInParts = findSummedInParts(program);
  findLastUses();
  makeTriangles();
  visitBlock(program.getBlock());
  b.setInsertionPoint(program.getBlock().getTerminator());
  awaitAll();
  awaitBulkStores();
  return memory.size();
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

SmallVector<Operation *> MemoryPlanner::usersOfPlace(Value value) {
  SmallVector<Operation *> users(value.getUsers());
  for (OpOperand &use : value.getUses())
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      llvm::append_range(users, loop.getTiedLoopResult(&use).getUsers());
  // A cumsum of a widened tile reads the place that the tile was loaded from.
  for (auto convert : llvm::make_filter_range(value.getUsers(), llvm::IsaPred<ConvertOp>))
    for (auto widened : llvm::make_filter_range(convert->getUsers(), llvm::IsaPred<arith::ExtFOp>))
      for (Operation *user : widened->getUsers())
        if (auto sums = dyn_cast<CumsumOp>(user); sums && summedInShared(sums) == value)
          users.push_back(user);
  return users;
}

void MemoryPlanner::findLastUses() {
  auto note = [&](Value value) {
    Operation *last = value.getDefiningOp();
    for (Operation *user : usersOfPlace(value)) {
      if (Operation *sum = summedInParts.lookup(user))
        user = sum;
      Operation *inBlock = value.getParentBlock()->findAncestorOpInBlock(*user);
      if (last->isBeforeInBlock(inBlock))
        last = inBlock;
    }
    lastUses[last].push_back(value);
  };
  program.walk([&](Operation *op) {
    if (isa<TakeOp>(op))
      return; // its tiles live as long as the ring
    for (Value result : op->getResults())
      if (isa<MakeRingOp>(op) || (isTile(result) && isInShared(layoutOf(result)) &&
                                  !isa<scf::ForOp, vector::InsertOp>(op)))
        note(result);
  });
}

void MemoryPlanner::visitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break; // a partition's block has none
    SmallVector<Value> ended = lastUses.lookup(&op);
    b.setInsertionPoint(&op);
    // Of the op, or of what takes its place.
    auto after = std::next(Block::iterator(op));
    loc = op.getLoc();
    visit(&op);
    for (Value value : ended)
      if (rings.contains(value)) {
        b.setInsertionPoint(&block, after);
        endRing(value);
      } else if (Range range = use(value).range; range.end) {
        if (!buffers.tiles.contains(value))
          memory.release(range);
        tiles.erase(value);
      }
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

MemoryPlanner::Tile &MemoryPlanner::use(Value value) {
  if (partialSums.contains(value))
    value = finishSum(value);
  auto it = tiles.find(value);
  assert(it != tiles.end() && "a tile is made before it is used");
  if (it->second.group)
    awaitGroup(it->second.group);
  return it->second;
}

SmallVector<SharedMemory::Range> MemoryPlanner::readsOf(Operation *op) {
  SmallVector<Range> ranges;
  for (const Access &access : accessesOf(op))
    if (!access.writes)
      ranges.push_back(use(access.tile).range);
  return ranges;
}

void MemoryPlanner::load(Operation *op) {
  // Threads copy the vectors of a ring, so no load of those is overtaken.
  for (const Access &access : accessesOf(op))
    if (!access.writes && !isVectorTile(access.tile.getType()))
      loadsSinceBarrier.push_back({op->getResult(0), use(access.tile).range});
  beforeRead(readsOf(op));
}

void MemoryPlanner::makeInRegisters(Value value) {
  tiles[value] = {value.getType(), layoutOf(value)};
}

void MemoryPlanner::setPlace(Value value, LayoutAttr layout) {
  auto result = cast<OpResult>(value);
  if (auto convert = dyn_cast<ConvertOp>(result.getOwner()))
    return convert.setLayoutAttr(layout);
  SmallVector<Attribute> layouts(result.getOwner()->getNumResults(), b.getUnitAttr());
  if (auto known = result.getOwner()->getAttrOfType<ArrayAttr>(kLayoutsAttr))
    llvm::copy(known, layouts.begin());
  layouts[result.getResultNumber()] = layout;
  result.getOwner()->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
}

void MemoryPlanner::visit(Operation *op) {
  if (summedInParts.contains(op))
    return; // with its sum
  // An op that is divided is gone afterwards.
  SmallVector<unsigned> elements;
  if (op->getNumRegions() == 0)
    for (Value result : op->getResults())
      if (isTile(result))
        elements.push_back(elementsOfThread(result.getType(), layoutOf(result)));
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp o) { visitLoad(o); })
      .Case([&](StoreOp o) { visitStore(o); })
      .Case([&](MakeRingOp o) { visitMakeRing(o); })
      .Case([&](AcquireOp o) { visitAcquire(o); })
      .Case([&](PutOp o) { visitPut(o); })
      .Case([&](TakeOp o) { visitTake(o); })
      .Case([&](ReleaseOp o) { visitRelease(o); })
      .Case([&](WarpSpecializeOp o) { visitPartitions(o); })
      .Case([&](StoreSlotOp o) {
        if (!unstored.contains(o.getSlots()) && isTile(o.getTile()))
          use(o.getTile());
      })
      .Case([&](ConvertOp o) { visitConvert(o); })
      .Case([&](DotOp o) { visitDot(o); })
      .Case([&](CumsumOp o) { visitCumsum(o); })
      .Case<InvertDiagonalOp, MergeInversesOp>([&](Operation *o) { visitInverses(o); })
      .Case([&](BroadcastOp o) { visitBroadcast(o); })
      .Case([&](tile::SumOp o) { visitSum(o); })
      .Case([&](RangeGuardOp o) { visitRangeGuard(o); })
      .Case([&](vector::ExtractOp o) { visitExtract(o); })
      .Case([&](vector::InsertOp o) { visitInsert(o); })
      .Case([&](scf::ForOp o) { visitFor(o); })
      .Case<GuardedOp, scf::IfOp>([&](Operation *o) { visitBranch(Branch::of(o)); })
      .Default([&](Operation *o) {
        for (Value operand : o->getOperands())
          if (isTile(operand))
            use(operand);
        for (Value result : o->getResults())
          if (isTile(result))
            makeInRegisters(result);
      });
  for (unsigned count : elements)
    memory.noteWork(count);
}

/// Whether threads copy the rows past their registers, and wait for them later.
static bool isCopied(LoadOp op) { return op && isInShared(layoutOf(op)) && copyBytes(op) >= 4; }

void MemoryPlanner::visitLoad(LoadOp op) {
  if (!isInShared(layoutOf(op)))
    return makeInRegisters(op);
  if (tiles.contains(op))
    return; // with the load before it
  auto place = [&](LoadOp load) {
    Tile tile = newShared(load.getType(), layoutOf(load), readersOf(load));
    setPlace(load, tile.layout);
    tiles[load] = tile;
  };
  place(op);
  if (!isCopied(op))
    return beforeWrite(tiles[op].range); // stored by threads
  // Adjacent loads share one wait. So the barriers that they need come before all of them, and order
  // none of their writes.
  SmallVector<LoadOp> loads = {op};
  for (auto next = dyn_cast<LoadOp>(op->getNextNode()); isCopied(next);
       next = dyn_cast<LoadOp>(next->getNextNode())) {
    place(next);
    loads.push_back(next);
  }
  for (LoadOp load : loads)
    makeWritable(tiles[load].range);
  for (LoadOp load : loads)
    memory.noteWrite(tiles[load].range);
  LoadOp last = loads.back();
  b.setInsertionPointAfter(last);
  waitForCopies(0);
}

void MemoryPlanner::visitStore(StoreOp op) {
  if (unstored.contains(argOf(op.getRows())))
    return;
  Tile tile = use(op.getTile());
  if (op.getBulk()) {
    if (memory.readNeedsBarrier(tile.range))
      barrier();
    // At the end of a sequence or segment, threads may store the rows that belong to it.
    if (hasNeighbours(program)) {
      loadsSinceBarrier.push_back({Value(), tile.range});
      memory.noteRead(tile.range);
    }
    memory.pending.noteBulkStore(tile.range);
    bulkStoredFrom.push_back(tile.range);
  } else if (isInShared(tile.layout)) {
    beforeRead(readsOf(op));
    loadsSinceBarrier.push_back({Value(), tile.range});
  }
}

/// A conversion between two layouts in registers becomes a store to shared memory and a load.
void MemoryPlanner::visitConvert(ConvertOp op) {
  Tile from = use(op.getTile());
  LayoutAttr to = op.getLayout();
  bool isUniform = from.layout.getKind() == LayoutKind::uniform;
  bool isBetweenThreads = (isFragments(from.layout) && isFragments(to)) ||
                          (isRows(from.layout) && !isInShared(to)) ||
                          (isRows(to) && !isInShared(from.layout) && !isUniform);
  if (isInShared(to) || isBetweenThreads) {
    Tile shared = isInShared(to) ? sharedFor(op, to, readersOf(op))
                                 : newShared(from.type, LayoutAttr(), readersOf(op));
    // Adjacent conversions share one wait: the first waits for the readers of all their buffers.
    for (Operation *next = op->getNextNode(); isa_and_nonnull<ConvertOp>(next);
         next = next->getNextNode())
      if (const Tile *place = carriedPlace(next->getResult(0)))
        awaitReaders(place->range);
    beforeWrite(shared.range);
    if (isInShared(to)) {
      setPlace(op, shared.layout);
      tiles[op] = shared;
      return;
    }
    Value stored = ConvertOp::create(b, loc, op.getType(), op.getTile(), shared.layout);
    op.getTileMutable().set(stored);
    tiles[stored] = shared;
    memory.release(shared.range);
  }
  load(op);
  makeInRegisters(op);
}

/// The result takes the matrix's place where that is free then. Otherwise it has a place of its own,
/// and threads copy what the op leaves as it is.
void MemoryPlanner::visitInverses(Operation *op) {
  Value result = op->getResult(0), matrix = op->getOperand(0);
  Tile &from = use(matrix);
  // Whole warps substitute, so that their lanes can wait for one another.
  bool fillsWarps = isa<MergeInversesOp>(op) ||
                    cast<VectorType>(matrix.getType()).getDimSize(0) % kWarpSize == 0;
  if (llvm::is_contained(lastUses.lookup(op), matrix) && from.range.end && !carriedPlace(result) &&
      !matrix.getDefiningOp<TakeOp>() && fillsWarps) {
    Tile place = from;
    from.range = {};
    setPlace(result, place.layout);
    beforeWrite(place.range);
    tiles[result] = {result.getType(), place.layout, place.range};
    return;
  }
  Tile to = sharedFor(result, layoutOf(result), Readers::threads);
  setPlace(result, to.layout);
  // The barriers of both stand before the op, so that none of them orders what it reads and writes.
  makeWritable(to.range);
  beforeRead(readsOf(op));
  memory.noteWrite(to.range);
  tiles[result] = to;
}

void MemoryPlanner::visitBroadcast(BroadcastOp op) {
  use(op.getVector());
  load(op);
  makeInRegisters(op);
}

/// The barrier that combines the threads' answers also orders shared memory.
void MemoryPlanner::visitRangeGuard(RangeGuardOp op) {
  for (unsigned i = 0; i < op.getTiles().size(); ++i)
    use(op.getTiles()[i]);
  passBarrier();
}

/// A number of a matrix in fragments goes through shared memory with its row.
void MemoryPlanner::visitExtract(vector::ExtractOp op) {
  Tile tile = use(op.getSource());
  bool isUniform = tile.layout.getKind() == LayoutKind::uniform;
  bool isMatrix = op.getSourceVectorType().getRank() == 2;
  Value result = op.getResult();
  if (!isMatrix || isUniform) {
    if (isTile(result))
      makeInRegisters(result);
    return;
  }
  if (!isFragments(tile.layout)) {
    load(op);
    if (isTile(result))
      makeInRegisters(result);
    return;
  }
  if (isTile(result)) {
    if (isRows(layoutOf(result)))
      return makeInRegisters(result);
    Tile row = sharedFor(result, LayoutAttr());
    setPlace(result, row.layout);
    beforeWrite(row.range);
    tiles[result] = row;
    return;
  }
  auto rowType = VectorType::get({op.getSourceVectorType().getDimSize(1)},
                                 op.getSourceVectorType().getElementType());
  Tile row = newShared(rowType);
  beforeWrite(row.range);
  SmallVector<OpFoldResult> position = op.getMixedPosition();
  Value stored = vector::ExtractOp::create(b, loc, op.getSource(), position.front());
  setPlace(stored, row.layout);
  beforeRead(row.range);
  auto lanes = LayoutAttr::get(b.getContext(), LayoutKind::lanes, 0, 0);
  Value loaded = ConvertOp::create(b, loc, rowType, stored, lanes);
  memory.release(row.range);
  op.replaceAllUsesWith(
      vector::ExtractOp::create(b, loc, loaded, position.back()).getResult());
  op.erase();
}

/// In shared memory the row is stored in place.
void MemoryPlanner::visitInsert(vector::InsertOp op) {
  Tile tile = use(op.getDest());
  use(op.getValueToStore());
  if (isInShared(tile.layout))
    makeWritable(tile.range);
  load(op);
  if (isInShared(tile.layout)) {
    memory.noteWrite(tile.range);
    setPlace(op.getResult(), tile.layout);
  }
  tiles[op.getResult()] = {op.getType(), layoutOf(op.getResult()), tile.range};
}
