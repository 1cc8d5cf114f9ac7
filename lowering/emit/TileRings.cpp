//===- TileRings.cpp - rings of stages in shared memory --------------------===//
//
// Item i lies in stage i mod N. Where all threads do everything, one barrier says both
// that an item is there and that the ones before are used no more, and copies come in
// groups, one for each item:
//
//   acquire   a barrier, unless there was one since the last release
//   fill      this thread's copies; commit them as a group
//   take      wait for this thread's groups up to the item's; barrier
//   release   noted
//
// (TMA loads, which one thread issues: TileTma.cpp.)
//
// Between roles, each stage has two mbarriers, `full` and `empty`; in the phase of item
// i they are those of its round ⌊i / N⌋:
//
//   acquire   wait until `empty` has ended the round before
//   fill      this thread's copies; they arrive at `full` when they are there (for
//             `wgmma`, the thread waits for them, fences them and arrives itself)
//   take      wait until `full` has ended the item's round
//   release   each warp arrives at `empty`, when no product reads the stage any more
//
//===----------------------------------------------------------------------===//
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/pipeline/TmaTiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `op` is used behind `maker`, in the same iteration of `loop`.
static bool isBehind(Operation *maker, Operation *op, scf::ForOp loop) {
  for (Operation *at = maker; at != loop; at = at->getParentOp()) {
    Operation *here = at->getBlock()->findAncestorOpInBlock(*op);
    if (here && at->isBeforeInBlock(here))
      return true;
  }
  return false;
}

/// A tile that a loop carries in shared memory has one place, or two by turns: what the next
/// iteration has is written where this one's is used no more, or is this one's with a row more.
/// Behind the loop it can only be stored.
static LogicalResult checkCarried(scf::ForOp loop) {
  for (auto [arg, init, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(), loop.getResults())) {
    LayoutAttr layout = isa<VectorType>(arg.getType()) ? layoutOf(arg) : LayoutAttr();
    if (!isInShared(layout))
      continue;
    bool isRowByRow = llvm::any_of(findRowByRow(loop), [&, arg = arg](const RowByRow &matrix) {
      return matrix.argument() == arg;
    });
    auto isStored = [](Value tile) {
      return llvm::all_of(tile.getUsers(), llvm::IsaPred<StoreOp>);
    };
    if (layoutOf(init) != layout || !init.hasOneUse() ||
        !(result.use_empty() || isRowByRow || (isStored(arg) && isStored(result))))
      return loop.emitError("carries a tile in shared memory that comes from another place, or is "
                            "used behind the loop");
    if (isRowByRow)
      continue; // each row is put where it stays
    SmallVector<Value> left = {loop.getYieldedValues()[arg.getArgNumber() - 1]};
    while (!left.empty()) {
      Value next = left.pop_back_val();
      Operation *maker = next.getDefiningOp();
      if (auto branch = dyn_cast_or_null<scf::IfOp>(maker); branch && next.hasOneUse()) {
        unsigned number = cast<OpResult>(next).getResultNumber();
        left.push_back(branch.thenYield().getOperand(number));
        left.push_back(branch.elseYield().getOperand(number));
        continue;
      }
      auto row = dyn_cast_or_null<vector::ExtractOp>(maker);
      bool isStored =
          isa_and_nonnull<ConvertOp>(maker) || (row && isFragments(layoutOf(row.getSource())));
      if (!isStored || !next.hasOneUse() || layoutOf(next) != layout ||
          !loop->isProperAncestor(maker))
        return loop.emitError("hands on a tile in shared memory that is not stored there for the "
                              "next iteration alone");
      for (Operation *user : arg.getUsers())
        if (isBehind(maker, user, loop))
          return user->emitError("uses a tile in shared memory behind what takes its place");
    }
  }
  return success();
}

/// A matrix in shared memory that rows are put into is its loop's own from the start, and is read
/// through conversions.
static LogicalResult checkRowByRow(RowByRow matrix) {
  if (!isInShared(layoutOf(matrix.result())))
    return success();
  if (!matrix.init().get().getDefiningOp<ConvertOp>() ||
      !llvm::all_of(matrix.result().getUsers(), llvm::IsaPred<ConvertOp>))
    return matrix.insert.emitError("puts rows into a matrix in shared memory that is not its "
                                   "loop's own, or is not read through conversions");
  return success();
}

LogicalResult ejk::checkLaidOut(ProgramOp program) {
  if (failed(checkLayouts(program)))
    return failure();
  llvm::DenseSet<Operation *> inserts;
  for (const RowByRow &matrix : findRowByRow(program)) {
    if (failed(checkRowByRow(matrix)))
      return failure();
    inserts.insert(matrix.insert);
  }
  WalkResult walked = program.walk([&](Operation *op) -> WalkResult {
    if (isa<vector::InsertOp>(op) && isInShared(layoutOf(op->getResult(0))) &&
        !inserts.contains(op))
      return op->emitError("puts a row into a tile in shared memory that no loop makes row by row");
    if (auto loop = dyn_cast<scf::ForOp>(op); loop && failed(checkCarried(loop)))
      return WalkResult::interrupt();
    if (isa<scf::IfOp>(op))
      for (Value result : op->getResults())
        if (isa<VectorType>(result.getType()) && isInShared(layoutOf(result)) &&
            !(result.hasOneUse() && isa<scf::YieldOp>(*result.user_begin())))
          return op->emitError("gives a tile in shared memory that no loop carries");
    if (auto take = dyn_cast<TakeOp>(op)) {
      auto first = takeOf(take.getRing().getDefiningOp<MakeRingOp>());
      for (auto [tile, known] : llvm::zip_equal(take.getTiles(), first.getTiles()))
        if (LayoutAttr layout = layoutOf(tile); !isInShared(layout) || layout != layoutOf(known))
          return op->emitError("the tiles of a ring must have one layout each, in shared memory");
    }
    if (auto fill = dyn_cast<FillOp>(op))
      for (auto [rows, channel] : llvm::zip_equal(fill.getRows(), fill.getChannels()))
        if (copyBytes(cast<RowsType>(rows.getType()), channel) < 4)
          return op->emitError("rows are too narrow, or not aligned, to be copied asynchronously");
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void TileEmitter::emitMakeRing(MakeRingOp op) {
  Ring &ring = rings[op.getRing()];
  RingType type = op.getRing().getType();
  TakeOp take = takeOf(op);
  ring.stages = type.getStages();
  unsigned alignment = 128, bytes = 0;
  for (auto [i, tileType] : llvm::enumerate(type.getTiles())) {
    Placed tile;
    tile.type = tileType;
    tile.layout = take ? layoutOf(take.getTiles()[i])
                       : LayoutAttr::get(b.getContext(), LayoutKind::shared, 0, 0);
    tile.pitch = sharedPitch(tileType);
    unsigned tileAlignment = sharedAlignment(tile.layout);
    alignment = std::max(alignment, tileAlignment);
    bytes = unsigned(llvm::alignTo(bytes, tileAlignment));
    ring.offsets.push_back(bytes);
    ring.tileBytes.push_back(
        unsigned(llvm::alignTo(sharedBytes(tileType, tile.layout), tileAlignment)));
    bytes += ring.stages * ring.tileBytes.back();
    ring.tiles.push_back(tile);
  }
  ring.range = memory.allocate(bytes, alignment);
  ring.inBoxes = boxed.contains(op.getRing());
  for (Operation *user : op->getUsers())
    if (isa<TakeOp>(user))
      ring.range.isFactor |=
          llvm::any_of(user->getResults(), [&](Value tile) { return isFactor(tile); });
  makeMbarriers(op);
  // What lay here may still be read.
  makeWritable(ring.range);
  if (ring.inBoxes)
    makeStageMbarriers(op);
}

/// A ring that nothing uses any more; its last copies may be under way.
void TileEmitter::endRing(Value value) {
  if (rings[value].mbarriers.end && !rings[value].inBoxes)
    return; // the program ends, too
  waitForCopies(0);
  memory.noteWrite(rings[value].range);
  memory.release(rings[value].range);
}

Value TileEmitter::stageOf(const Ring &ring, Value item) {
  return ring.stages == 1 ? b.i32(0) : b.rem(narrowIndex(item), ring.stages);
}

/// The tiles of `item`'s stage. Of the ring's range: the ops on the ring order it.
SmallVector<Placed> TileEmitter::tilesOf(const Ring &ring, Value item) {
  Value base = sharedAt(ring.range), stage = stageOf(ring, item);
  SmallVector<Placed> result = ring.tiles;
  for (auto [tile, offset, bytes] : llvm::zip_equal(result, ring.offsets, ring.tileBytes)) {
    Value first = b.at(base, b.getI8Type(), b.mul(stage, bytes));
    tile.address = b.at(first, b.getI8Type(), offset);
    tile.range = ring.range;
  }
  return result;
}

void TileEmitter::waitForCopies(unsigned groups) { b.make<NVVM::CpAsyncWaitGroupOp>(groups); }

/// How many groups of copies may still be under way when `take`'s item is there: those
/// that are always committed behind it. Of a loop that takes items by its counter, by going
/// through its first iterations; 0 where it is not known.
unsigned TileEmitter::groupsBehind(TakeOp take) const {
  auto loop = dyn_cast<scf::ForOp>(take->getParentOp());
  if (!loop)
    return 0;
  std::optional<int64_t> taken = itemsAhead(loop.getInductionVar(), take.getItem());
  if (!taken)
    return 0;
  // Which items are filled before the loop, and in it by how many ahead of its counter.
  struct Fill {
    Value ring;
    int64_t item;
    bool isBehindTake;
  };
  SmallVector<Fill> before, inside;
  APInt number;
  auto isGroup = [&](FillOp fill) { return !boxed.contains(fill.getRing()); };
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
  // The items of `take`'s ring, and null groups of others, as they are committed.
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
      if (!fill.isBehindTake)
        commit(fill, counter);
    auto place = llvm::find(committed, std::optional(counter + *taken));
    if (place == committed.end())
      return 0;
    fewest = std::min<unsigned>(fewest, committed.end() - place - 1);
    for (const Fill &fill : inside)
      if (fill.isBehindTake)
        commit(fill, counter);
  }
  return fewest;
}

//===----------------------------------------------------------------------===//
// An item's way
//===----------------------------------------------------------------------===//

/// Whether an item is released behind `take` and before `acquire`, or may be.
static bool isReleasedBetween(TakeOp take, AcquireOp acquire) {
  for (Operation *op = take; op != acquire; op = op->getNextNode())
    if (op->walk([&](ReleaseOp release) {
            return release.getRing() == take.getRing() ? WalkResult::interrupt()
                                                       : WalkResult::advance();
          }).wasInterrupted())
      return true;
  return false;
}

/// Whether a take in front of `acquire`, with its barrier, has ordered it behind all uses of
/// what its stage had: less than a round ahead of the counter, that was used in an iteration
/// before.
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

void TileEmitter::emitAcquire(AcquireOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.mbarriers.end) {
    if (!followsTake(op))
      makeWritable(ring.range);
    return;
  }
  if (!ring.inBoxes)
    return waitForEmpty(ring, op.getItem());
  // Who fills waits, and not for a release of its own that still waits for products.
  if (llvm::any_of(heldReleases, [&](ReleaseOp held) { return held.getRing() == op.getRing(); }))
    awaitReaders(ring.range);
}

void TileEmitter::emitFill(FillOp op) {
  const Ring &ring = rings[op.getRing()];
  if (ring.inBoxes)
    return fillBoxes(op);
  for (auto [tile, rows, first, channel] :
       llvm::zip_equal(tilesOf(ring, op.getItem()), op.getRows(), op.getFirst(), op.getChannels()))
    copyRows(rows, first, channel, tile);
  if (ring.mbarriers.end && !warpgroups) {
    b.make<NVVM::CpAsyncMBarrierArriveOp>(fullOf(ring, stageOf(ring, op.getItem())),
                                          /*noinc=*/true);
    return;
  }
  b.make<NVVM::CpAsyncCommitGroupOp>();
  if (ring.mbarriers.end) {
    // `wgmma` sees what the thread that wrote it has fenced, once it is there.
    waitForCopies(0);
    if (ring.range.isFactor)
      fenceForProducts();
    b.make<NVVM::MBarrierArriveOp>(b.getI64Type(), fullOf(ring, stageOf(ring, op.getItem())),
                                   Value());
  }
}

void TileEmitter::emitTake(TakeOp op) {
  const Ring &ring = rings[op.getRing()];
  if (op.getHeld()) {
    // Since it was taken, all threads see it.
  } else if (ring.mbarriers.end) {
    waitForPhase(fullOf(ring, stageOf(ring, op.getItem())), parityOf(ring, op.getItem()));
  } else {
    waitForCopies(groupsBehind(op));
    // A barrier fences what else was written.
    if (warpgroups && ring.range.isFactor && !memory.pending.unfenced)
      fenceForProducts();
    barrier();
  }
  for (auto [value, tile] : llvm::zip_equal(op.getTiles(), tilesOf(ring, op.getItem())))
    tiles[value] = tile;
}

void TileEmitter::emitRelease(ReleaseOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.mbarriers.end) {
    memory.noteRead(ring.range);
    return;
  }
  heldReleases.push_back(op);
  releaseAwaited();
}
