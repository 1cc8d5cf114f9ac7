//===- TileRings.cpp - rings of stages in shared memory --------------------===//
//
// Emits multi-stage copies to shared memory (CUTLASS's pipelines: acquire, fill and
// commit, take, release). Item i lies in stage i mod N.
//
// Without warp specialisation, `fill` issues this thread's copies and commits them as a group, and
// the plan has waits and barriers (memory/PlanRings.cpp).
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
//   put       each thread stores its elements, fences them for `wgmma`, and arrives at `full`
//   release   each warp that takes arrives at `empty`
//
//===----------------------------------------------------------------------===//
#include "lowering/layout/Alignment.h"
#include "lowering/layout/MatmulOperands.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/pipeline/TmaTiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void TileEmitter::emitMakeRing(MakeRingOp op) {
  bool needsFence = llvm::any_of(op->getUsers(), [](Operation *user) {
    return isa<TakeOp>(user) && llvm::any_of(user->getResults(), [](Value tile) {
             return readersOf(tile) == Readers::units;
           });
  });
  rings[op.getRing()] = {RingLayout::of(op), int64_t(*op.getPlace()),
                         op.getMbarriers() ? int64_t(*op.getMbarriers()) : -1, op.getTma(),
                         needsFence};
  if (!op.getTma() || hasPartitions(program))
    return; // initialised where partitions begin
  b.onlyIf(b.equal(thread, 0), [&] {
    initializeMbarriers(op);
    b.make<NVVM::FenceMbarrierInitOp>();
  });
}

Value TileEmitter::stageOf(const Ring &ring, Value item) {
  return ring.layout.stages == 1 ? b.i32(0) : b.rem(narrowIndex(item), ring.layout.stages);
}

/// The tiles in the stage of `item`.
SmallVector<Placed> TileEmitter::tilesOf(const Ring &ring, Value item) {
  Value base = sharedAt(ring.place), stage = stageOf(ring, item);
  SmallVector<Placed> result;
  for (const RingLayout::Tile &each : ring.layout.tiles) {
    Placed tile;
    tile.type = each.type;
    tile.layout = each.layout;
    tile.pitch = sharedPitch(each.type);
    Value first = b.at(base, b.getI8Type(), b.mul(stage, each.stageBytes));
    tile.address = b.at(first, b.getI8Type(), each.offset);
    result.push_back(tile);
  }
  return result;
}

void TileEmitter::waitForCopies(unsigned groups) { b.make<NVVM::CpAsyncWaitGroupOp>(groups); }

//===----------------------------------------------------------------------===//
// Ring ops
//===----------------------------------------------------------------------===//

/// With TMA, the lane that fills waits instead.
void TileEmitter::emitAcquire(AcquireOp op) {
  const Ring &ring = rings[op.getRing()];
  if (ring.hasMbarriers() && !ring.usesTma)
    waitForEmpty(ring, op.getItem());
}

void TileEmitter::emitFill(FillOp op) {
  const Ring &ring = rings[op.getRing()];
  if (ring.usesTma)
    return fillByTma(op);
  for (auto [tile, rows, first, channel] :
       llvm::zip_equal(tilesOf(ring, op.getItem()), op.getRows(), op.getFirst(), op.getChannels()))
    copyRows(rows, first, channel, tile);
  if (ring.hasMbarriers() && !warpgroups) {
    b.make<NVVM::CpAsyncMBarrierArriveOp>(fullOf(ring, stageOf(ring, op.getItem())),
                                          /*noinc=*/true);
    return;
  }
  b.make<NVVM::CpAsyncCommitGroupOp>();
  if (ring.hasMbarriers()) {
    // `wgmma` sees copies that the copying thread has fenced after they completed.
    waitForCopies(0);
    if (ring.needsFence)
      fenceForMatmuls();
    b.make<NVVM::MBarrierArriveOp>(b.getI64Type(), fullOf(ring, stageOf(ring, op.getItem())),
                                   Value());
  }
}

/// Each thread stores its elements, and arrives.
void TileEmitter::emitPut(PutOp op) {
  const Ring &ring = rings[op.getRing()];
  for (auto [value, stored] : llvm::zip_equal(op.getTiles(), tilesOf(ring, op.getItem())))
    writeTile(placed(value), stored);
  if (ring.needsFence)
    fenceForMatmuls();
  b.make<NVVM::MBarrierArriveOp>(b.getI64Type(), fullOf(ring, stageOf(ring, op.getItem())),
                                 Value());
}

void TileEmitter::emitTake(TakeOp op) {
  const Ring &ring = rings[op.getRing()];
  // An earlier take made a held item visible to all threads.
  if (!op.getHeld() && ring.hasMbarriers())
    waitForPhase(fullOf(ring, stageOf(ring, op.getItem())), parityOf(ring, op.getItem()));
  for (auto [value, tile] : llvm::zip_equal(op.getTiles(), tilesOf(ring, op.getItem())))
    tiles[value] = tile;
}

void TileEmitter::emitRelease(ReleaseOp op) {
  const Ring &ring = rings[op.getRing()];
  if (!ring.hasMbarriers())
    return;
  // All lanes must have read before the one arrival.
  b.make<NVVM::SyncWarpOp>(b.i32(-1));
  b.onlyIf(b.equal(lane, 0), [&] {
    b.make<NVVM::MBarrierArriveOp>(b.getI64Type(), emptyOf(ring, stageOf(ring, op.getItem())),
                                   Value());
  });
}

//===----------------------------------------------------------------------===//
// Rows that cannot be copied yet
//===----------------------------------------------------------------------===//

/// The bytes of a line of the second-level cache.
static constexpr int64_t kLineBytes = 128;

/// Asks the second-level cache for the lines of a matrix's rows, as far as they exist. Nothing
/// waits for them, as reloads of spilled registers would for loads.
void TileEmitter::emitPrefetch(PrefetchOp op) {
  const Rows &from = rows[op.getRows()];
  // Rows of another step lie elsewhere at a sequence's ends.
  if (from.begin || from.haloBase)
    return;
  Value first = wideIndex(op.getFirst()), firstChannel = op.getChannel();
  auto type = cast<VectorType>(op.getTile());
  int64_t inLine = kLineBytes / KernelBuilder::bytesOf(from.element);
  int64_t perRow = llvm::divideCeil(type.getDimSize(1), inLine);
  int64_t lines = type.getDimSize(0) * perRow;
  Value stride = strideOf(from);
  for (int64_t done = 0; done < lines; done += workers) {
    Value number = b.add(thread, done);
    Value row = b.add(first, b.wide(b.div(number, perRow)));
    Value channel = b.add(wideIndex(firstChannel), b.wide(b.mul(b.rem(number, perRow), inLine)));
    // Unsigned, so that rows before the first are not less.
    Value asks = b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, row, from.length);
    if (lines - done < workers)
      asks = b.both(asks, b.less(number, lines));
    if (mayReachBeyond(firstChannel, type.getDimSize(1), from.channels))
      asks = b.both(asks, b.less(channel, from.channels));
    b.onlyIf(asks, [&] {
      Value line = b.at(from.base, from.element, b.add(b.mul(row, stride), channel));
      // LLVM selects upstream's op from PTX 8.0 on; the instruction is older.
      callAsm("prefetch.global.L2 [$0];", "l", {line}, {});
    });
  }
}
