//===- TileTma.cpp - rows that one thread has copied ---------------------===//
//
// From sm_90a on, rows that come to lie in panels need no threads to copy them. A tensor map, 128
// bytes that the runtime makes, describes a tensor as matrices of panels of 64 columns: of rows
// [B, T, H, K], B matrices of T rows in H·K/64 panels, and a box is some rows of some panels. One
// lane orders a stage's boxes, which tell an mbarrier how many bytes have come; rows outside of a
// matrix are zeros. As between roles (TileRings.cpp), a stage has two mbarriers; the first warp
// is the one that fills:
//
//   acquire   wait for products that hold back a release
//   fill      one lane waits until `empty` has ended the round before, arrives at `full` with the
//             bytes of what comes in boxes, and orders those; where some of a packed sequence's
//             rows are another's, all threads have waited, copied and met at a barrier before
//   take      wait until `full` has ended the item's round: no barrier
//   release   each warp arrives at `empty`, when no product reads the stage any more
//
// Tiles are stored so as well, by one lane, when all have written them, fenced that and met. It
// waits until the device has read a tile in front of a barrier that comes so late that this is so
// anyway, or of the one behind which others write its place.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The bytes that threads copy at once.
static constexpr int64_t kPieceBytes = 16;

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

/// Between roles, threads copy and store themselves.
void TileEmitter::findMaps() {
  if (!warpgroups || !program.getBlock().getOps<RolesOp>().empty())
    return;
  llvm::DenseMap<Value, Value> tensors;
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    tensors[arg] = tensor;
  for (auto [arg, tensor] : llvm::zip(program.getSavedArgs(), program.getSavedStates()))
    tensors[arg] = tensor;
  findBoxes(tensors);
  findSends();
}

/// The number of the kernel's argument that is a map of `tensor`, for boxes that are a `tile`.
unsigned TileEmitter::mapFor(Value arg, Value tensor, Type tile) {
  auto [height, panels] = boxOf(tile);
  auto [it, isNew] = maps.try_emplace({arg, {height, panels}}, kernel.operands.size());
  // Of a state's cells [slots, H, K, V] rows are K, of sequences [B, T, H, K] T.
  unsigned rank = cast<RankedTensorType>(tensor.getType()).getRank();
  unsigned rowDim = isa<CellsType>(arg.getType()) ? rank - 2 : 1;
  if (isNew)
    kernel.operands.push_back({tensor, {}, KernelOperand::Box{rowDim, height, panels}});
  return it->second;
}

void TileEmitter::findBoxes(const llvm::DenseMap<Value, Value> &tensors) {
  if (!usesTmaLoads(program))
    return;
  for (MakeRingOp ring : program.getBlock().getOps<MakeRingOp>()) {
    boxed.insert(ring.getRing());
    for (FillOp fill : fillsOf(ring))
      for (auto [rows, tile] : llvm::zip_equal(fill.getRows(), takeOf(ring).getTiles())) {
        if (isVectorTile(tile.getType()))
          continue;
        Value arg = argOf(rows);
        mapFor(arg, tensors.lookup(arg), tile.getType());
      }
  }
}

/// The loop that hands on the tile and the row of `store` together, if one does: which result's
/// row.
static std::pair<scf::ForOp, unsigned> carrierOf(StoreOp store) {
  auto arg = dyn_cast<BlockArgument>(store.getFirst());
  auto loop = arg ? dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp())
                  : store.getFirst().getDefiningOp<scf::ForOp>();
  if (!loop || (arg && arg == loop.getInductionVar()))
    return {};
  return {loop, arg ? arg.getArgNumber() - 1 : cast<OpResult>(store.getFirst()).getResultNumber()};
}

/// Whether a store's rows are others in each iteration of the loop that it is in, if any: the
/// device stores two tiles in any order.
static bool storesOnce(StoreOp store) {
  auto loop = store->getParentOfType<scf::ForOp>();
  if (!loop)
    return true;
  if (!isa<ProgramOp>(loop->getParentOp()))
    return false;
  // What the iteration before has handed on; before the first, of rows behind all.
  Value first = store.getFirst();
  if (auto [carrier, result] = carrierOf(store); carrier == loop) {
    if (loop.getInitArgs()[result] != store->getParentOfType<ProgramOp>().getLength())
      return false;
    first = loop.getYieldedValues()[result];
  }
  auto withoutConstant = [&](Value value) {
    while (Operation *maker = value.getDefiningOp()) {
      if (!isa<arith::AddIOp, arith::SubIOp>(maker))
        break;
      bool isFirst = loop.isDefinedOutsideOfLoop(maker->getOperand(1));
      if (!isFirst && !loop.isDefinedOutsideOfLoop(maker->getOperand(0)))
        break;
      value = maker->getOperand(!isFirst);
    }
    return value;
  };
  // Of a cell of their own.
  if (auto ofCell = store.getRows().getDefiningOp<CellRowsOp>())
    return withoutConstant(ofCell.getIndex()) == loop.getInductionVar();
  // Or the counter times as many rows or more.
  auto product = withoutConstant(first).getDefiningOp<arith::MulIOp>();
  APInt rows;
  return product && matchPattern(product.getRhs(), m_ConstantInt(&rows)) &&
         rows.sge(cast<VectorType>(store.getTile().getType()).getDimSize(0)) &&
         withoutConstant(product.getLhs()) == loop.getInductionVar();
}

/// Whether the two stand on two sides of a branch, or one stores what a loop hands on, and the
/// other what it has handed on last.
static bool areApart(StoreOp a, StoreOp b) {
  auto [loop, result] = carrierOf(a);
  if (loop && std::make_pair(loop, result) == carrierOf(b) &&
      loop->isProperAncestor(a) != loop->isProperAncestor(b))
    return true;
  auto branch = dyn_cast<scf::IfOp>(a->getParentOp());
  return branch && branch == b->getParentOp() && a->getBlock() != b->getBlock();
}

/// The stores that the device does: of tiles in panels, where all that is copied comes in boxes.
/// Such a store needs a fence, which would wait for copies by threads that are under way.
void TileEmitter::findSends() {
  if (boxed.empty())
    return;
  auto send = [&](Value arg, Value tensor) {
    SmallVector<StoreOp> stores;
    for (Operation *user : arg.getUsers()) {
      auto ofCell = dyn_cast<CellRowsOp>(user);
      for (Operation *op : ofCell ? llvm::to_vector(ofCell->getUsers()) : SmallVector{user})
        stores.push_back(dyn_cast<StoreOp>(op));
    }
    bool areBoxes = llvm::all_of(stores, [&](StoreOp store) {
      auto type = store ? dyn_cast<VectorType>(store.getTile().getType()) : VectorType();
      // A ring's stage may be filled again before the device has read it.
      return type && !store.getTile().getDefiningOp<TakeOp>() &&
             isInBoxes(store.getRows(), store.getChannel(), type, layoutOf(store.getTile())) &&
             storesOnce(store) && llvm::all_of(stores, [&](StoreOp other) {
               return other == store || (other && areApart(store, other));
             });
    });
    if (areBoxes && !tensor.use_empty())
      for (StoreOp store : stores)
        sends[store] = mapFor(arg, tensor, store.getTile().getType());
  };
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    send(arg, tensor);
  for (auto [arg, tensor] : llvm::zip(program.getSaveArgs(), program.getSaves()))
    send(arg, tensor);
}

void TileEmitter::passByValue(gpu::GPUFuncOp function, unsigned arg) {
  Type bytes = LLVM::LLVMArrayType::get(b.getI8Type(), kMapBytes);
  function.setArgAttr(arg, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
  function.setArgAttr(arg, LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(kMapAlignment));
}

//===----------------------------------------------------------------------===//
// A stage's boxes
//===----------------------------------------------------------------------===//

void TileEmitter::makeStageMbarriers(MakeRingOp op) {
  Ring &ring = rings[op.getRing()];
  makeWritable(ring.mbarriers);
  b.onlyIf(b.equal(thread, 0), [&] {
    initializeMbarriers(op);
    b.make<NVVM::FenceMbarrierInitOp>();
  });
  // Before boxes come, all that threads wrote here has been written.
  fenceForProducts();
  barrier();
}

void TileEmitter::fillBoxes(FillOp op) {
  const Ring &ring = rings[op.getRing()];
  Value item = op.getItem();
  TakenItems taken = *takenOf(op.getRing().getDefiningOp<MakeRingOp>());
  Value count = narrowIndex(taken.count);
  // As many rows of one packed sequence, and from one place on, exist together. Else what is not
  // there is outside of a matrix; so is all of an item behind the sequence's end.
  struct Part {
    Value exist;
    SmallVector<Copy> copies;
  };
  llvm::MapVector<std::pair<std::pair<Value, Value>, int64_t>, Part> parts;
  SmallVector<Box> boxes;
  SmallVector<Copy> vectors;
  for (auto [i, tile] : llvm::enumerate(tilesOf(ring, item))) {
    Copy copy{op.getRows()[i], op.getFirst()[i], op.getChannels()[i], tile};
    if (isVectorTile(tile.type)) {
      vectors.push_back(copy);
      continue;
    }
    auto [height, panels] = boxOf(tile.type);
    unsigned map = maps.at({argOf(copy.rows), {height, panels}});
    if (!cuPointer || copy.rows.getDefiningOp<CellRowsOp>()) {
      boxes.push_back({copy, map, Value()});
      continue;
    }
    Part &part = parts[{{rows[copy.rows].length, copy.first}, height}];
    if (!part.exist) {
      // What has a map has fewer than 2^31 rows.
      Value first = narrowIndex(copy.first), last = b.add(first, height - 1);
      part.exist = b.both(b.less(b.i32(-1), first), b.less(last, b.narrow(rows[copy.rows].length)));
      if (taken.more)
        part.exist = b.make<arith::OrIOp>(part.exist, b.less(b.sub(count, 1), narrowIndex(item)));
    }
    part.copies.push_back(copy);
    boxes.push_back({copy, map, part.exist});
  }
  // Boxes that nobody takes would come when others may use their place, or after the block's end;
  // such an item's rows may exist, as a saved state's that several chunks share.
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
      fenceForProducts();
      b.make<gpu::BarrierOp>();
    });
  }
  byOneLane(isTaken, [&] {
    waitForEmpty(ring, item);
    Value isBehind = taken.more ? b.less(b.sub(count, 1), narrowIndex(item)) : Value();
    orderBoxes(boxes, fullOf(ring, stageOf(ring, item)), isBehind);
  });
  if (!vectors.empty())
    copyBeside(op, vectors, isTaken);
}

/// By the last warp, which orders no boxes.
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

/// By one lane of the first warp, that the assembler knows to be one: else it would loop over those
/// that may be.
void TileEmitter::byOneLane(Value condition, llvm::function_ref<void()> body) {
  b.onlyIf(b.both(condition, b.equal(warp, 0)),
           [&] { b.onlyIf(b.make<NVVM::ElectSyncOp>(b.getI1Type(), Value()), body); });
}

/// Of rows outside of a matrix where `isBehind`, if not null.
void TileEmitter::orderBoxes(ArrayRef<Box> boxes, Value full, Value isBehind) {
  Value bytes = b.i32(0);
  for (const Box &box : boxes) {
    auto [rows, panels] = boxOf(box.copy.tile.type);
    Value all = b.i32(rows * panels * kPanelPitch);
    bytes = b.add(bytes, box.exists ? b.make<arith::SelectOp>(box.exists, all, b.i32(0)).getResult()
                                    : all);
  }
  b.make<NVVM::MBarrierArriveExpectTxOp>(TypeRange(), full, bytes, NVVM::MemScopeKind::CTA, false,
                                         Value());
  // A block's own shared memory has the same addresses in its cluster's.
  Type inCluster =
      LLVM::LLVMPointerType::get(b.getContext(), unsigned(NVVM::NVVMMemorySpace::SharedCluster));
  for (const Box &box : boxes)
    b.onlyIf(box.exists, [&] {
      const Copy &copy = box.copy;
      const auto &place = rows[copy.rows].inMap;
      Value row = b.add(place.row, narrowIndex(copy.first));
      if (isBehind)
        row = b.make<arith::SelectOp>(isBehind, b.i32(-boxOf(copy.tile.type).first), row);
      Value panel = b.div(b.add(place.column, narrowIndex(copy.channel)), kPanelColumns);
      Value number = b.make<LLVM::PtrToIntOp>(b.getI32Type(), copy.tile.address);
      b.make<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(
          b.make<LLVM::IntToPtrOp>(inCluster, number), kernel.function.getArgument(box.map),
          ValueRange{b.i32(0), row, panel, place.matrix}, full, ValueRange(), Value(), Value(),
          NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(), Value());
    });
}

/// Seldom done: what only this needs is made here, piece by piece, and held in no register
/// meanwhile.
void TileEmitter::copyRagged(const Copy &copy) {
  const Rows &from = rows[copy.rows];
  auto type = cast<VectorType>(copy.tile.type);
  constexpr int64_t perPiece = kPieceBytes / 2;
  int64_t perRow = type.getDimSize(1) / perPiece;
  // Unknown to be 0, so that no address is made before the loop over chunks.
  Value here = callAsm("mov.b32 $0, 0;", "=r", {}, b.getI32Type());
  Value mapRow = b.wide(b.add(from.inMap.row, here));
  Value first = wideIndex(copy.first);
  Value start = b.add(b.mul(b.add(mapRow, first), from.stride),
                      b.wide(b.add(from.inMap.column, narrowIndex(copy.channel))));
  RowSpan span = rowsWithin(from, first, type.getDimSize(0));
  b.loop(b.add(thread, here), b.i32(type.getDimSize(0) * perRow), workers, {},
         [&](Value piece, ValueRange) -> SmallVector<Value> {
           Value row = b.div(piece, perRow), column = b.mul(b.rem(piece, perRow), perPiece);
           Value offset = b.add(start, b.add(b.mul(b.wide(row), from.stride), b.wide(column)));
           Value size = b.make<arith::SelectOp>(span.has(b, row), b.i32(kPieceBytes), b.i32(0));
           b.make<NVVM::CpAsyncOp>(panelElement(copy.tile, row, column),
                                   b.at(from.pointer, from.element, offset), kPieceBytes,
                                   NVVM::LoadCacheModifierKind::CG, size);
           return {};
         });
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// One lane has the device store a tile's panels, when all threads have written and fenced them;
/// rows outside of a matrix are left out. Of a packed sequence's ragged end, threads store those
/// that are its own.
void TileEmitter::sendPanels(const Placed &tile, const Rows &to, StoreOp op) {
  auto type = cast<VectorType>(tile.type);
  if (memory.readNeedsBarrier(tile.range))
    barrier();
  Value isWhole;
  // A loop's first iteration may have nothing to store, and a tensor of no rows has a map of one.
  if (carrierOf(op).first)
    isWhole = b.less(wideIndex(op.getFirst()), to.length);
  if (cuPointer) {
    Value first = wideIndex(op.getFirst()), last = b.add(first, type.getDimSize(0) - 1);
    isWhole = b.both(b.less(b.i64(-1), first), b.less(last, to.length));
    Value always = b.make<arith::ConstantOp>(b.getBoolAttr(true));
    b.onlyIf(b.make<arith::XOrIOp>(isWhole, always), [&] { storePanels(tile, to, op); });
    memory.noteRead(tile.range);
  }
  // A group each, in which there may be nothing.
  byOneLane({}, [&] {
    b.onlyIf(isWhole, [&] {
      Value row = b.add(to.inMap.row, narrowIndex(op.getFirst()));
      Value panel = b.div(b.add(to.inMap.column, narrowIndex(op.getChannel())), kPanelColumns);
      b.make<NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp>(
          kernel.function.getArgument(sends.lookup(op)), tile.address,
          ValueRange{b.i32(0), row, panel, to.inMap.matrix}, /*l2CacheHint=*/Value(),
          NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
    });
    b.make<NVVM::CpAsyncBulkCommitGroupOp>();
  });
  memory.pending.noteSent(tile.range);
  sentFrom.push_back(tile.range);
}

/// Until the device has read what was sent that `is`; a barrier then tells all threads.
void TileEmitter::awaitSent(llvm::function_ref<bool(const SharedMemory::Sent &)> is) {
  auto &sent = memory.pending.sent;
  std::optional<unsigned> left; // that may be read later
  for (const SharedMemory::Sent &one : sent)
    if (is(one))
      left = std::min(left.value_or(one.behind), one.behind);
  if (!left)
    return;
  byOneLane({}, [&] {
    b.make<NVVM::CpAsyncBulkWaitGroupOp>(b.getI32IntegerAttr(*left), b.getUnitAttr());
  });
  llvm::erase_if(sent, [&](const SharedMemory::Sent &one) {
    if (one.behind >= *left)
      memory.noteRead(one.range);
    return one.behind >= *left;
  });
}
