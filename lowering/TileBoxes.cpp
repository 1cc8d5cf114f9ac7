//===- TileBoxes.cpp - rows that one thread has copied ---------------------===//
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
//===----------------------------------------------------------------------===//
#include "lowering/StageTileLoads.h"
#include "lowering/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The most rows, or panels, of a box, and the bytes that threads copy at once.
static constexpr int64_t kMostBoxSize = 256, kPieceBytes = 16;

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

/// The program's argument that has `rows`.
static Value argOf(Value rows) {
  auto ofCell = rows.getDefiningOp<CellRowsOp>();
  return ofCell ? ofCell.getCells() : rows;
}

/// Whether panels of `type`, from `channel` on, are panels of memory.
static bool isInBoxes(Value rows, Value channel, VectorType type, LayoutAttr layout) {
  auto row = dyn_cast<VectorType>(cast<RowsType>(rows.getType()).getRow());
  APInt first;
  if (!row || type.getRank() != 2 || layout.getKind() != LayoutKind::panels ||
      row.getElementTypeBitWidth() != 16 || !matchPattern(channel, m_ConstantInt(&first)))
    return false;
  int64_t channels = row.getDimSize(0), columns = type.getDimSize(1);
  return type.getDimSize(0) <= kMostBoxSize && columns <= kMostBoxSize * kPanelColumns &&
         columns % kPanelColumns == 0 && channels % kPanelColumns == 0 &&
         first.getSExtValue() % kPanelColumns == 0 && first.getSExtValue() + columns <= channels;
}

/// Rows and panels of a box that has all of a tile.
static std::pair<int64_t, int64_t> boxOf(Type tile) {
  auto type = cast<VectorType>(tile);
  return {type.getDimSize(0), type.getDimSize(1) / kPanelColumns};
}

/// Whether threads read half of the copied tiles into registers or more, as they do to scale
/// them: then they have no time to copy. Where tiles are mostly multiplied as they are, the warp
/// that orders boxes would keep the others waiting.
static bool readsTiles(ProgramOp program) {
  unsigned all = 0, read = 0;
  for (auto ring : program.getBlock().getOps<MakeRingOp>())
    for (unsigned i = 0; i < ring.getRing().getType().getTiles().size(); ++i) {
      ++all;
      read += llvm::any_of(ring->getUsers(), [&](Operation *user) {
        auto take = dyn_cast<TakeOp>(user);
        return take && llvm::any_of(take.getTiles()[i].getUsers(), [](Operation *reader) {
                 return isa<ConvertOp>(reader) && isFragments(layoutOf(reader->getResult(0)));
               });
      });
    }
  return 2 * read >= all;
}

/// The fills of `ring`.
static SmallVector<FillOp> fillsOf(MakeRingOp ring) {
  SmallVector<FillOp> fills;
  for (Operation *user : ring->getUsers())
    if (auto fill = dyn_cast<FillOp>(user))
      fills.push_back(fill);
  return fills;
}

/// Whether `fill` is of an item that is known: by `loop`'s counter in it, as a number before it.
static bool fillsKnown(FillOp fill, scf::ForOp loop) {
  APInt number;
  return loop->isProperAncestor(fill)
             ? itemsAhead(loop.getInductionVar(), fill.getItem()).has_value()
             : matchPattern(fill.getItem(), m_ConstantInt(&number));
}

/// How many items of `ring` are taken: as many as the one loop that takes them counts. Null where
/// that is not known before all of its fills, or not which items these are of.
static Value takenOf(MakeRingOp ring) {
  scf::ForOp loop;
  int64_t ahead = 0;
  for (Operation *user : ring->getUsers())
    if (auto take = dyn_cast<TakeOp>(user)) {
      auto parent = dyn_cast<scf::ForOp>(take->getParentOp());
      std::optional<int64_t> itemAhead;
      if (parent)
        itemAhead = itemsAhead(parent.getInductionVar(), take.getItem());
      if (!itemAhead || (loop && (loop != parent || ahead != *itemAhead)))
        return {};
      loop = parent;
      ahead = *itemAhead;
    }
  if (!loop || ahead != 0 || !isa<ProgramOp>(loop->getParentOp()) ||
      !matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()))
    return {};
  Operation *made = loop.getUpperBound().getDefiningOp();
  SmallVector<FillOp> fills = fillsOf(ring);
  bool isBeforeAll = llvm::all_of(fills, [&](FillOp fill) {
    Operation *within = made ? made->getBlock()->findAncestorOpInBlock(*fill) : nullptr;
    return fillsKnown(fill, loop) && (!made || (within && made->isBeforeInBlock(within)));
  });
  return !fills.empty() && isBeforeAll ? loop.getUpperBound() : Value();
}

/// The rings whose tiles all may come in boxes, where it is known which do: what threads copy
/// beside boxes they would wait for longer than for all of it.
void TileEmitter::findBoxes() {
  auto rings = llvm::to_vector(program.getBlock().getOps<MakeRingOp>());
  if (!warpgroups || rings.empty() || !program.getBlock().getOps<RolesOp>().empty() ||
      !readsTiles(program))
    return;
  llvm::DenseMap<Value, Value> tensors;
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    tensors[arg] = tensor;
  for (auto [arg, tensor] : llvm::zip(program.getSavedArgs(), program.getSavedStates()))
    tensors[arg] = tensor;
  auto comesInBoxes = [&](FillOp fill, TakeOp take) {
    return llvm::all_of(llvm::seq<unsigned>(0, fill.getRows().size()), [&](unsigned i) {
      return tensors.contains(argOf(fill.getRows()[i])) &&
             isInBoxes(fill.getRows()[i], fill.getChannels()[i],
                       cast<VectorType>(take.getTiles()[i].getType()),
                       layoutOf(take.getTiles()[i]));
    });
  };
  for (MakeRingOp ring : rings) {
    TakeOp take = takeOf(ring);
    if (!take || !takenOf(ring) ||
        !llvm::all_of(fillsOf(ring), [&](FillOp fill) { return comesInBoxes(fill, take); }))
      return;
  }
  for (MakeRingOp ring : rings) {
    boxed.insert(ring.getRing());
    for (FillOp fill : fillsOf(ring))
      for (auto [rows, tile] : llvm::zip_equal(fill.getRows(), takeOf(ring).getTiles())) {
        Value arg = argOf(rows), tensor = tensors.lookup(arg);
        auto [height, panels] = boxOf(tile.getType());
        auto [it, isNew] = maps.try_emplace({arg, {height, panels}}, kernel.operands.size());
        // Of a state's cells [slots, H, K, V] rows are K, of sequences [B, T, H, K] T.
        unsigned rank = cast<RankedTensorType>(tensor.getType()).getRank();
        unsigned rowDim = isa<CellsType>(arg.getType()) ? rank - 2 : 1;
        if (isNew)
          kernel.operands.push_back({tensor, {}, KernelOperand::Box{rowDim, height, panels}});
      }
  }
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
  // As many rows of one packed sequence, and from one place on, exist together. Else what is not
  // there is outside of a matrix.
  struct Part {
    Value exist;
    SmallVector<Copy> copies;
  };
  llvm::MapVector<std::pair<std::pair<Value, Value>, int64_t>, Part> parts;
  SmallVector<Box> boxes;
  for (auto [i, tile] : llvm::enumerate(tilesOf(ring, item))) {
    Copy copy{op.getRows()[i], op.getFirst()[i], op.getChannels()[i], tile};
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
    }
    part.copies.push_back(copy);
    boxes.push_back({copy, map, part.exist});
  }
  // Boxes that nobody takes would come when others may use their place, or after the block's end;
  // such an item's rows may exist, as a saved state's that several chunks share.
  Value taken = narrowIndex(takenOf(op.getRing().getDefiningOp<MakeRingOp>()));
  Value isTaken = b.less(narrowIndex(item), taken);
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
  b.onlyIf(b.both(isTaken, b.equal(warp, 0)), [&] {
    // One lane that the assembler knows to be one: else it would loop over those that may order.
    b.onlyIf(b.make<NVVM::ElectSyncOp>(b.getI1Type(), Value()), [&] {
      waitForEmpty(ring, item);
      orderBoxes(boxes, fullOf(ring, stageOf(ring, item)));
    });
  });
}

void TileEmitter::orderBoxes(ArrayRef<Box> boxes, Value full) {
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
