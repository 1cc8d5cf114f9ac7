//===- TilePartitions.cpp - warp specialisation -----------------------------===//
//
// Emits tile.warp_specialize: producer and consumer warps that run different code.
//
//   one thread initialises the rings' mbarriers; barrier of the block
//   warps 0 to a-1: the first partition; warps a to b-1: the second; …
//
// Within a partition, threads and warps count from its first one, and barriers are named
// barriers of its threads. A partition's shared memory is not reused by other partitions, because
// nothing tells when the partition is done with it.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// A block has 16 barriers, and barrier 0 is for the whole block. It has at most 1024 threads.
static constexpr int64_t kMostPartitions = 15, kMostWarps = 32;

static bool worksOnTiles(Operation *op) {
  return llvm::any_of(op->getResultTypes(), llvm::IsaPred<VectorType>) ||
         isa<StoreOp, StoreSlotOp>(op);
}

/// Tiles are laid out for the program's warps at most; which partition has fewer shows in its layouts
/// (layout/CheckLayouts.cpp).
LogicalResult ejk::checkPartitions(ProgramOp program) {
  WarpSpecializeOp partitions = partitionsOf(program);
  if (!partitions)
    return success();
  int64_t laidOut = program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt(), warps = 0, count = 0;
  for (auto partition : partitions.getBody().getOps<PartitionOp>()) {
    ++count;
    warps += partition.getWarps();
    WalkResult walked = partition.walk([](Operation *op) {
      return worksOnTiles(op) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walked.wasInterrupted() && int64_t(partition.getWarps()) > laidOut)
      return partition.emitError() << "works on tiles that are laid out for " << laidOut
                                   << " warps, but has " << partition.getWarps();
  }
  if (count > kMostPartitions || warps > kMostWarps)
    return partitions.emitError() << "a block has at most " << kMostPartitions << " partitions and "
                                  << kMostWarps << " warps, but these are " << count << " and "
                                  << warps;
  // A warp that asks for more registers than others have given back waits for ever.
  int64_t given = registersOf(warps * kWarpSize), taken = 0;
  for (auto partition : partitions.getBody().getOps<PartitionOp>())
    taken += partition.getWarps() * partition.getRegisters().value_or(given);
  if (taken > given * warps)
    return partitions.emitError()
           << "its partitions' warps take " << taken << " registers a lane together, more than the "
           << given * warps
           << " with which the block is launched, so that some would wait for ever";
  return success();
}

unsigned TileEmitter::countWarps() {
  WarpSpecializeOp partitions = partitionsOf(program);
  if (!partitions)
    return warps;
  unsigned count = 0;
  for (auto partition : partitions.getBody().getOps<PartitionOp>())
    count += partition.getWarps();
  return count;
}

//===----------------------------------------------------------------------===//
// Mbarriers
//===----------------------------------------------------------------------===//

Value TileEmitter::fullOf(const Ring &ring, Value stage) {
  return b.at(sharedAt(ring.mbarriers), b.getI8Type(), b.mul(stage, RingLayout::kMbarrierBytes));
}
Value TileEmitter::emptyOf(const Ring &ring, Value stage) {
  return b.at(fullOf(ring, stage), b.getI8Type(),
              ring.layout.stages * RingLayout::kMbarrierBytes);
}

/// Sets arrival counts. At `full` all threads that fill or put arrive; with TMA, one lane, and the
/// warp that copies vectors if there are any. At `empty`, one lane of each warp that takes arrives.
void TileEmitter::initializeMbarriers(MakeRingOp op) {
  const Ring &ring = rings[op.getRing()];
  unsigned fillers = 1, takers = 0;
  if (ring.usesTma &&
      llvm::any_of(ring.layout.tiles, [](auto &tile) { return isVectorTile(tile.type); }))
    fillers += kWarpSize;
  llvm::SmallPtrSet<Operation *, 2> taking;
  for (Operation *user : op->getUsers()) {
    auto partition = user->getParentOfType<PartitionOp>();
    unsigned own = partition ? partition.getWarps() : warps;
    if (isa<FillOp, PutOp>(user) && !ring.usesTma)
      fillers = own * kWarpSize;
    else if (isa<TakeOp>(user) && taking.insert(partition).second)
      takers += own;
  }
  for (unsigned stage = 0; stage < ring.layout.stages; ++stage) {
    b.make<NVVM::MBarrierInitOp>(fullOf(ring, b.i32(stage)), b.i32(fillers), Value());
    b.make<NVVM::MBarrierInitOp>(emptyOf(ring, b.i32(stage)), b.i32(takers), Value());
  }
}

/// The parity of the phase of `item`.
Value TileEmitter::parityOf(const Ring &ring, Value item) {
  return b.rem(b.div(narrowIndex(item), ring.layout.stages), 2);
}

/// Waits until the phase of `parity` has completed.
void TileEmitter::waitForPhase(Value mbarrier, Value parity) {
  auto loop = b.make<scf::WhileOp>(TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&loop.getBefore());
  Value done = b.make<NVVM::MBarrierTryWaitOp>(b.getI1Type(), mbarrier, parity, Value());
  Value goOn = b.make<arith::XOrIOp>(done, b.make<arith::ConstantOp>(b.getBoolAttr(true)));
  b.make<scf::ConditionOp>(goOn, ValueRange());
  b.createBlock(&loop.getAfter());
  b.make<scf::YieldOp>();
}

/// Waits until all uses of the stage's previous item have ended. In the first phase this returns at
/// once.
void TileEmitter::waitForEmpty(const Ring &ring, Value item) {
  waitForPhase(emptyOf(ring, stageOf(ring, item)), b.sub(b.i32(1), parityOf(ring, item)));
}

//===----------------------------------------------------------------------===//
// Partitions
//===----------------------------------------------------------------------===//

void TileEmitter::emitWarpSpecialize(WarpSpecializeOp op) {
  auto setsRegisters = [](PartitionOp partition) { return partition.getRegisters().has_value(); };
  if (llvm::any_of(op.getBody().getOps<PartitionOp>(), setsRegisters))
    kernel.function->setAttr(NVVM::NVVMDialect::getMaxnregAttrName(),
                             b.getI32IntegerAttr(registersOf(kernel.threads)));
  b.onlyIf(b.equal(thread, 0), [&] {
    for (auto ring : program.getBlock().getOps<MakeRingOp>())
      initializeMbarriers(ring);
    b.make<NVVM::FenceMbarrierInitOp>();
  });
  barrier();

  OpBuilder::InsertionGuard guard(b);
  Value blockThread = thread, blockWarp = warp;
  unsigned firstWarp = 0, end = countWarps();
  for (auto partition : op.getBody().getOps<PartitionOp>()) {
    unsigned nextWarp = firstWarp + partition.getWarps();
    Block *others = nullptr;
    if (nextWarp != end) {
      auto branch = b.make<scf::IfOp>(TypeRange(), b.less(blockWarp, nextWarp),
                                      /*withElseRegion=*/true);
      others = branch.elseBlock();
      b.setInsertionPointToStart(branch.thenBlock());
    }
    if (firstWarp) {
      thread = b.sub(blockThread, firstWarp * kWarpSize);
      warp = b.sub(blockWarp, firstWarp);
      warpgroup = b.div(warp, kWarpgroup);
    }
    emitPartition(partition);
    if (others)
      b.setInsertionPointToStart(others);
    firstWarp = nextWarp;
  }
}

void TileEmitter::emitPartition(PartitionOp partition) {
  ++namedBarrier;
  warps = partition.getWarps();
  workers = warps * kWarpSize;
  if (std::optional<uint64_t> registers = partition.getRegisters())
    b.make<NVVM::SetMaxRegisterOp>(uint32_t(*registers),
                                   *registers > registersOf(kernel.threads)
                                       ? NVVM::SetMaxRegisterAction::increase
                                       : NVVM::SetMaxRegisterAction::decrease);
  emitBlock(partition.getBody().front());
}
