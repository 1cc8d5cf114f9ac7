//===- TileTma.cpp - loads and stores by TMA -------------------------------===//
//
// Emits loads and stores of swizzled tiles by TMA, beside wgmma (sm_90a): one elected lane issues a
// copy, and the other threads go on. A tensor map, 128 bytes that the runtime encodes,
// describes a tensor as matrices of blocks of C columns, 128 bytes: rows [B, T, H, K] are B
// matrices of T rows and H·K/C blocks. C is 64 for 16-bit rows and 32 for f32. A TMA tile is some
// rows of some blocks. An mbarrier counts the bytes that have arrived; rows outside of a matrix are
// zeros. Where K is no multiple of C, the map has the heads as a dimension, B·H matrices of T rows
// and K columns, and a tile's blocks are copied one by one. Columns outside of a head are zeros in
// shared memory and are not stored, and count among the bytes that arrive.
//
// Each stage has two mbarriers, as with warp specialisation (TileRings.cpp). A lane of the
// first warp is the producer:
//
//   fill      one lane waits until `empty` has completed the previous phase, arrives at `full`
//             with the number of bytes, and issues the loads. If some rows of a packed tile
//             belong to another sequence, all threads first wait, copy and pass a barrier
//   take      wait until `full` has completed the item's phase; no barrier
//   release   each warp arrives at `empty`
//
// Stores use TMA too. One elected lane issues the bulk store after a proxy fence and a barrier.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/kernels/ShiftedRows.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

void TileEmitter::findMaps() {
  llvm::DenseMap<Value, Value> tensors;
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    tensors[arg] = loadedTensor(program, tensor);
  for (auto [arg, tensor] : llvm::zip(program.getSavedArgs(), program.getSavedStates()))
    tensors[arg] = tensor;
  findTmaLoads(tensors);
  auto mapStores = [&](ValueRange args, ValueRange results) {
    for (auto [arg, tensor] : llvm::zip(args, results))
      for (StoreOp store : storesTo(arg))
        if (store && store.getBulk())
          tmaStores[store] =
              mapFor(store.getRows(), store.getChannel(), tensor, store.getTile().getType());
  };
  mapStores(program.getOutputArgs(), program.getOutputs());
  mapStores(program.getSaveArgs(), program.getSaves());
}

/// The rows and blocks that are copied at once; no blocks stand for one block of a head.
static std::pair<int64_t, int64_t> tmaCopyOf(Value rows, Value channel, Type tile) {
  auto [height, blocks] = tmaTileShape(tile);
  return {height, hasPartialBlocks(rows, channel, cast<VectorType>(tile)) ? 0 : blocks};
}

/// The kernel argument that is a map of `tensor`, to copy a tile of `rows` of the size of `tile`.
unsigned TileEmitter::mapFor(Value rows, Value channel, Value tensor, Type tile) {
  Value arg = argOf(rows);
  auto [height, blocks] = tmaCopyOf(rows, channel, tile);
  auto [it, isNew] = maps.try_emplace({arg, {height, blocks}}, kernel.operands.size());
  // The rows of states [slots, H, K, V] are K, those of sequences [B, T, H, K] are T.
  unsigned rank = cast<RankedTensorType>(tensor.getType()).getRank();
  unsigned rowDim = isa<SlotsType>(arg.getType()) ? rank - 2 : 1;
  if (isNew)
    kernel.operands.push_back({tensor,
                               {},
                               KernelOperand::TmaTile{rowDim, height, std::max<int64_t>(blocks, 1),
                                                      /*byHead=*/blocks == 0}});
  return it->second;
}

void TileEmitter::findTmaLoads(const llvm::DenseMap<Value, Value> &tensors) {
  for (MakeRingOp ring : program.getBlock().getOps<MakeRingOp>())
    if (ring.getTma())
      for (FillOp fill : fillsOf(ring))
        for (auto [rows, channel, tile] :
             llvm::zip_equal(fill.getRows(), fill.getChannels(), takeOf(ring).getTiles()))
          if (!isVectorTile(tile.getType()))
            mapFor(rows, channel, tensors.lookup(argOf(rows)), tile.getType());
}

void TileEmitter::passByValue(gpu::GPUFuncOp function, unsigned arg) {
  Type bytes = LLVM::LLVMArrayType::get(b.getI8Type(), kMapBytes);
  function.setArgAttr(arg, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
  function.setArgAttr(arg, LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(kMapAlignment));
}

//===----------------------------------------------------------------------===//
// A stage's loads
//===----------------------------------------------------------------------===//

void TileEmitter::fillByTma(FillOp op) {
  const Ring &ring = rings[op.getRing()];
  Value item = op.getItem();
  TakenItems taken = *takenOf(op.getRing().getDefiningOp<MakeRingOp>());
  Value count = narrowIndex(taken.count);
  // Tiles that start at one row of a packed sequence or segment exist or do not exist together.
  // Otherwise missing rows lie outside of the matrix and become zeros, as do all rows of an item
  // past the sequence's end.
  struct Part {
    Value exist;
    SmallVector<Copy> copies;
  };
  llvm::MapVector<std::pair<std::pair<Value, Value>, std::pair<Value, int64_t>>, Part> parts;
  SmallVector<TmaLoad> loads;
  SmallVector<Copy> vectors;
  for (auto [i, tile] : llvm::enumerate(tilesOf(ring, item))) {
    Copy copy{op.getRows()[i], op.getFirst()[i], op.getChannels()[i], tile};
    if (isVectorTile(tile.type)) {
      vectors.push_back(copy);
      continue;
    }
    int64_t height = tmaTileShape(tile.type).first;
    unsigned map = maps.at({argOf(copy.rows), tmaCopyOf(copy.rows, copy.channel, tile.type)});
    const Rows &from = rows[copy.rows];
    if (!hasNeighbours(from) || copy.rows.getDefiningOp<SlotRowsOp>()) {
      loads.push_back({copy, map, Value()});
      continue;
    }
    Part &part = parts[{{from.length, copy.first}, {from.begin, height}}];
    if (!part.exist) {
      // A tensor with a map has fewer than 2^31 rows.
      Value first = narrowIndex(copy.first), last = b.add(first, height - 1);
      Value before = from.begin ? b.sub(b.narrow(from.begin), 1) : b.i32(-1);
      part.exist = b.both(b.less(before, first), b.less(last, b.narrow(from.length)));
      if (taken.more)
        part.exist = b.make<arith::OrIOp>(part.exist, b.less(b.sub(count, 1), narrowIndex(item)));
    }
    part.copies.push_back(copy);
    loads.push_back({copy, map, part.exist});
  }
  // Loads of items that are never taken are not issued: they could arrive after their buffer is
  // reused or the block has ended. Their rows may exist, for example if several chunks share a
  // saved state.
  Value isTaken = b.less(narrowIndex(item), b.add(count, taken.more));
  Value always = b.make<arith::ConstantOp>(b.getBoolAttr(true));
  for (const auto &[place, part] : parts) {
    Value isRagged = b.both(isTaken, b.make<arith::XOrIOp>(part.exist, always));
    b.onlyIf(isRagged, [&, &copies = part.copies] {
      waitForEmpty(ring, item);
      for (const Copy &copy : copies)
        copyRagged(copy);
      b.make<NVVM::CpAsyncCommitGroupOp>();
      waitForCopies(0);
      fenceForMatmuls();
      barrier();
    });
  }
  byOneLane(isTaken, [&] {
    waitForEmpty(ring, item);
    Value isPastEnd = taken.more ? b.less(b.sub(count, 1), narrowIndex(item)) : Value();
    issueTmaLoads(loads, fullOf(ring, stageOf(ring, item)), isPastEnd);
  });
  if (!vectors.empty())
    copyBeside(op, vectors, isTaken);
}

/// Vectors are copied by the last warp, which issues no TMA loads.
void TileEmitter::copyBeside(FillOp op, ArrayRef<Copy> vectors, Value isTaken) {
  const Ring &ring = rings[op.getRing()];
  b.onlyIf(b.both(isTaken, b.equal(warp, warps - 1)), [&] {
    waitForEmpty(ring, op.getItem());
    auto all = std::make_pair(thread, workers);
    std::tie(thread, workers) = std::make_pair(lane, kWarpSize);
    for (const Copy &copy : vectors)
      copyRows(copy.rows, copy.first, copy.channel, copy.tile);
    std::tie(thread, workers) = all;
    b.make<NVVM::CpAsyncMBarrierArriveOp>(fullOf(ring, stageOf(ring, op.getItem())),
                                          /*noinc=*/true);
  });
}

/// Runs `body` in one lane of the first warp. `elect.sync` tells the assembler that it is a single
/// lane; otherwise it would emit a loop over lanes.
void TileEmitter::byOneLane(Value condition, llvm::function_ref<void()> body) {
  b.onlyIf(b.both(condition, b.equal(warp, 0)),
           [&] { b.onlyIf(b.make<NVVM::ElectSyncOp>(b.getI1Type(), Value()), body); });
}

/// Issues TMA loads that arrive at `full`. If `isPastEnd` holds, the rows are moved outside of the
/// matrix, so that they become zeros.
void TileEmitter::issueTmaLoads(ArrayRef<TmaLoad> loads, Value full, Value isPastEnd) {
  Value bytes = b.i32(0);
  for (const TmaLoad &load : loads) {
    auto [rows, blocks] = tmaTileShape(load.copy.tile.type);
    Value all = b.i32(rows * blocks * kSwizzledPitch);
    bytes = b.add(
        bytes, load.exists ? b.make<arith::SelectOp>(load.exists, all, b.i32(0)).getResult() : all);
  }
  b.make<NVVM::MBarrierArriveExpectTxOp>(TypeRange(), full, bytes, NVVM::MemScopeKind::CTA, false,
                                         Value());
  // Within a cluster, a block's own shared memory has the same addresses.
  Type inCluster =
      LLVM::LLVMPointerType::get(b.getContext(), unsigned(NVVM::NVVMMemorySpace::SharedCluster));
  for (const TmaLoad &load : loads)
    b.onlyIf(load.exists, [&] {
      const Copy &copy = load.copy;
      const auto &place = rows[copy.rows].tmaOrigin;
      Value row = b.add(place.row, narrowIndex(copy.first));
      if (isPastEnd)
        row = b.make<arith::SelectOp>(isPastEnd, b.i32(-tmaTileShape(copy.tile.type).first), row);
      forEachTmaCopy(copy, place, row, [&](ValueRange coordinates, Value address) {
        Value number = b.make<LLVM::PtrToIntOp>(b.getI32Type(), address);
        b.make<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(
            b.make<LLVM::IntToPtrOp>(inCluster, number), kernel.function.getArgument(load.map),
            coordinates, full, ValueRange(), Value(), Value(), NVVM::TMALoadMode::TILE,
            /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(), Value());
      });
    });
}

/// Calls `visit` for each copy that TMA makes of the tile of `copy`, whose rows start at the
/// coordinate `row`, with the coordinates and the address in shared memory.
void TileEmitter::forEachTmaCopy(const Copy &copy, const TmaCoordinates &origin, Value row,
                             llvm::function_ref<void(ValueRange, Value)> visit) {
  Value channel = narrowIndex(copy.channel);
  auto type = cast<VectorType>(copy.tile.type);
  int64_t columns = blockColumns(type.getElementType());
  if (!hasPartialBlocks(copy.rows, copy.channel, type)) {
    Value block = b.div(b.add(origin.column, channel), columns);
    return visit({b.i32(0), row, block, origin.matrix}, copy.tile.address);
  }
  auto [height, blocks] = tmaTileShape(copy.tile.type);
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t bytes = i * height * kSwizzledPitch;
    visit({b.add(channel, i * columns), row, origin.head, origin.matrix},
          bytes ? b.at(copy.tile.address, b.getI8Type(), bytes) : copy.tile.address);
  }
}

/// Copies rows by threads at the ragged end of a packed sequence. This is rare, so everything it
/// needs is computed here, segment by segment, and occupies no registers elsewhere.
void TileEmitter::copyRagged(const Copy &copy) {
  const Rows &from = rows[copy.rows];
  auto type = cast<VectorType>(copy.tile.type);
  int64_t perSegment = kSegmentBytes / KernelBuilder::bytesOf(from.element);
  int64_t perRow = type.getDimSize(1) / perSegment;
  // An opaque 0, so that LLVM does not hoist the address computation out of the loop over chunks.
  Value here = callAsm("mov.b32 $0, 0;", "=r", {}, b.getI32Type());
  // The origin of shifted rows may lie before the tensor.
  Value mapRow = b.resize(b.add(from.tmaOrigin.row, here), b.getI64Type(), /*isSigned=*/bool(from.begin));
  if (!cuPointer)
    mapRow = b.add(mapRow, b.mul(b.wide(b.add(from.tmaOrigin.matrix, here)), totalSteps));
  Value first = wideIndex(copy.first);
  Value start = b.add(b.mul(b.add(mapRow, first), from.stride),
                      b.wide(b.add(from.tmaOrigin.column, narrowIndex(copy.channel))));
  RowSpan span = rowsWithin(from, first, type.getDimSize(0)), all = span;
  if (from.haloBase)
    all = rowsWithin(from, first, type.getDimSize(0), /*withHalo=*/true);
  b.loop(b.add(thread, here), b.i32(type.getDimSize(0) * perRow), workers, {},
         [&](Value segment, ValueRange) -> SmallVector<Value> {
           Value row = b.div(segment, perRow), column = b.mul(b.rem(segment, perRow), perSegment);
           Value offset = b.add(start, b.add(b.mul(b.wide(row), from.stride), b.wide(column)));
           Value exists = all.has(b, row), there = b.at(from.pointer, from.element, offset);
           if (from.haloBase) {
             Value inHalo = b.add(b.mul(b.add(first, b.wide(row)), from.haloStride),
                                  b.wide(b.add(narrowIndex(copy.channel), column)));
             there = b.make<arith::SelectOp>(span.has(b, row), there,
                                             b.at(from.haloBase, from.element, inHalo));
           }
           if (hasPartialBlocks(copy.rows, copy.channel, type)) {
             Value own = b.add(narrowIndex(copy.channel), column);
             exists = b.both(exists, b.less(own, b.i32(int32_t(from.channels))));
           }
           Value size = b.make<arith::SelectOp>(exists, b.i32(kSegmentBytes), b.i32(0));
           b.make<NVVM::CpAsyncOp>(swizzledElement(copy.tile, row, column),
                                   there, kSegmentBytes,
                                   NVVM::LoadCacheModifierKind::CG, size);
           return {};
         });
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// One elected lane issues the bulk store of a swizzled tile, after all threads have stored and
/// fenced it. TMA skips rows outside of the matrix. At the ragged end of a packed sequence or a
/// segment, threads store the rows that belong to it.
void TileEmitter::storeByTma(const Placed &tile, const Rows &to, StoreOp op) {
  auto type = cast<VectorType>(tile.type);
  Value isWhole;
  // The first iteration of a loop may have nothing to store. A tensor of no rows has a map of one
  // row, and the rows around a segment are another's.
  bool mayBeOutside = carrierOf(op).first || program.getSegments();
  if (ejk::hasNeighbours(program)) {
    Value first = wideIndex(op.getFirst()), last = b.add(first, type.getDimSize(0) - 1);
    isWhole = b.both(b.less(b.i64(-1), first), b.less(last, to.length));
    Value always = b.make<arith::ConstantOp>(b.getBoolAttr(true));
    b.onlyIf(b.make<arith::XOrIOp>(isWhole, always), [&] { storeSwizzled(tile, to, op); });
  }
  // One bulk group per store, possibly empty, so that groups can be counted.
  byOneLane({}, [&] {
    if (!isWhole && mayBeOutside) // unsigned, so that no row is negative
      isWhole = b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, narrowIndex(op.getFirst()),
                                      b.narrow(to.length));
    b.onlyIf(isWhole, [&] {
      Value row = b.add(to.tmaOrigin.row, narrowIndex(op.getFirst()));
      Copy copy{op.getRows(), op.getFirst(), op.getChannel(), tile};
      forEachTmaCopy(copy, to.tmaOrigin, row, [&](ValueRange coordinates, Value address) {
        b.make<NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp>(
            kernel.function.getArgument(tmaStores.lookup(op)), address, coordinates,
            /*l2CacheHint=*/Value(), NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
      });
    });
    b.make<NVVM::CpAsyncBulkCommitGroupOp>();
  });
}

/// Waits until all bulk stores but the last `groups` have read their source. The next barrier tells
/// all threads.
void TileEmitter::waitForBulkStores(unsigned groups) {
  byOneLane({}, [&] {
    b.make<NVVM::CpAsyncBulkWaitGroupOp>(b.getI32IntegerAttr(groups), b.getUnitAttr());
  });
}
