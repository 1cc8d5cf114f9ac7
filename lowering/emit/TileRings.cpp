//===- TileRings.cpp - rings of stages in shared memory --------------------===//
//
// Emits multi-stage copies to shared memory (CUTLASS's pipelines: acquire, fill and
// commit, take, release). Item i lies in stage i mod N.
//
// Without warp specialisation, one barrier makes an item visible to all threads and orders
// all uses of earlier items. Copies are committed as one group per item:
//
//   acquire   a barrier, unless there was one since the last release
//   fill      issue this thread's copies; commit them as a group
//   take      wait for this thread's groups up to the item's; barrier
//   release   noted, no code
//
// (Loads by TMA: TileTma.cpp.)
//
// With warp specialisation, each stage has two mbarriers, `full` and `empty`. Item i uses
// their phase ⌊i / N⌋:
//
//   acquire   wait until `empty` has completed the previous phase
//   fill      issue this thread's copies, which arrive at `full` when complete (for
//             `wgmma`, the thread waits for them, fences them and arrives itself)
//   take      wait until `full` has completed the item's phase
//   release   each warp arrives at `empty`, once no outstanding matmul reads the stage
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

/// Whether `op` runs after `maker` in the same iteration of `loop`.
static bool runsAfter(Operation *maker, Operation *op, scf::ForOp loop) {
  for (Operation *at = maker; at != loop; at = at->getParentOp()) {
    Operation *here = at->getBlock()->findAncestorOpInBlock(*op);
    if (here && at->isBeforeInBlock(here))
      return true;
  }
  return false;
}

/// Checks a tile that a loop carries in shared memory. Its one or two buffers are fixed, so the
/// yielded value must be stored after the last use of the argument, or be the argument with one
/// more row. After the loop it may only be stored to global memory.
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
      continue; // each row is stored to its final place
    SmallVector<Value> left = {loop.getYieldedValues()[arg.getArgNumber() - 1]};
    while (!left.empty()) {
      Value next = left.pop_back_val();
      Operation *maker = next.getDefiningOp();
      if (Branch branch = Branch::of(maker); branch && next.hasOneUse()) {
        unsigned number = cast<OpResult>(next).getResultNumber();
        for (Region &side : branch->getRegions())
          left.push_back(side.front().getTerminator()->getOperand(number));
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
        if (runsAfter(maker, user, loop))
          return user->emitError("uses a tile in shared memory behind what takes its place");
    }
  }
  return success();
}

/// Checks a matrix in shared memory that a loop builds row by row: the loop must own its buffer,
/// and users must read it through conversions.
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
    if (Branch::is(op))
      for (Value result : op->getResults())
        if (isa<VectorType>(result.getType()) && isInShared(layoutOf(result)) &&
            !(result.hasOneUse() && isa<scf::YieldOp, tile::YieldOp>(*result.user_begin())))
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
  ring.usesTma = tmaRings.contains(op.getRing());
  for (Operation *user : op->getUsers())
    if (isa<TakeOp>(user))
      ring.range.isMatmulOperand |=
          llvm::any_of(user->getResults(), [&](Value tile) { return isMatmulOperand(tile); });
  makeMbarriers(op);
  // Earlier tiles in this range may still be read.
  makeWritable(ring.range);
  if (ring.usesTma)
    makeStageMbarriers(op);
}

/// Ends a ring after its last use. Its last copies may still be outstanding.
void TileEmitter::endRing(Value value) {
  if (rings[value].mbarriers.end && !rings[value].usesTma)
    return; // with warp specialisation, the program ends here
  waitForCopies(0);
  memory.noteWrite(rings[value].range);
  memory.release(rings[value].range);
}

Value TileEmitter::stageOf(const Ring &ring, Value item) {
  return ring.stages == 1 ? b.i32(0) : b.rem(narrowIndex(item), ring.stages);
}

/// The tiles in the stage of `item`. They share the ring's range, because ops on the ring order
/// accesses to all of it.
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

/// How many copy groups may still be outstanding when the item of `take` is complete: the fewest
/// groups that are committed after it in any iteration. Found by simulating the first iterations of
/// a loop that takes items by its counter; 0 if unknown.
unsigned TileEmitter::groupsAfter(TakeOp take) const {
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
  auto isGroup = [&](FillOp fill) { return !tmaRings.contains(fill.getRing()); };
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

//===----------------------------------------------------------------------===//
// Ring ops
//===----------------------------------------------------------------------===//

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

void TileEmitter::emitAcquire(AcquireOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.mbarriers.end) {
    if (!followsTake(op))
      makeWritable(ring.range);
    return;
  }
  if (!ring.usesTma)
    return waitForEmpty(ring, op.getItem());
  // The filling lane will wait for `empty`. A release of its own must not be pending then, or it
  // would wait for itself.
  if (llvm::any_of(pendingReleases,
                   [&](ReleaseOp release) { return release.getRing() == op.getRing(); }))
    awaitReaders(ring.range);
}

void TileEmitter::emitFill(FillOp op) {
  const Ring &ring = rings[op.getRing()];
  if (ring.usesTma)
    return fillByTma(op);
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
    // `wgmma` sees copies that the copying thread has fenced after they completed.
    waitForCopies(0);
    if (ring.range.isMatmulOperand)
      fenceForMatmuls();
    b.make<NVVM::MBarrierArriveOp>(b.getI64Type(), fullOf(ring, stageOf(ring, op.getItem())),
                                   Value());
  }
}

void TileEmitter::emitTake(TakeOp op) {
  const Ring &ring = rings[op.getRing()];
  if (op.getHeld()) {
    // An earlier take made the item visible to all threads.
  } else if (ring.mbarriers.end) {
    waitForPhase(fullOf(ring, stageOf(ring, op.getItem())), parityOf(ring, op.getItem()));
  } else {
    waitForCopies(groupsAfter(op));
    // The barrier itself fences if other stores are unfenced.
    if (warpgroups && ring.range.isMatmulOperand && !memory.pending.unfenced)
      fenceForMatmuls();
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
  pendingReleases.push_back(op);
  releaseAwaited();
}
