//===- TmaTiles.cpp - which tiles of rings are TMA tiles ------------------===//
#include "lowering/pipeline/TmaTiles.h"
#include "dialect/tile/Branch.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The most rows, or blocks of 128 bytes, of a TMA tile.
static constexpr int64_t kMaxTmaTileSize = 256;

TakeOp ejk::takeOf(MakeRingOp ring) {
  for (Operation *user : ring->getUsers())
    if (auto take = dyn_cast<TakeOp>(user))
      return take;
  return {};
}

bool ejk::isOfComputedTiles(MakeRingOp ring) {
  return llvm::none_of(ring->getUsers(), llvm::IsaPred<FillOp>);
}

WarpSpecializeOp ejk::partitionsOf(ProgramOp program) {
  auto partitions = program.getBlock().getOps<WarpSpecializeOp>();
  return partitions.empty() ? WarpSpecializeOp() : *partitions.begin();
}

Value ejk::argOf(Value rows) {
  auto ofSlot = rows.getDefiningOp<SlotRowsOp>();
  return ofSlot ? ofSlot.getSlots() : rows;
}

/// The largest value of `channel`, the first column of a tile, in any slice of the program of
/// `rows`. Nothing where it is not known to be a multiple of a block's columns.
static std::optional<int64_t> largestFirst(Value rows, Value channel) {
  int64_t block = blockColumns(getElementTypeOrSelf(cast<RowsType>(rows.getType()).getRow()));
  APInt first, perSlice;
  int64_t largest;
  if (matchPattern(channel, m_ConstantInt(&first))) {
    largest = first.getSExtValue();
  } else {
    auto program = dyn_cast<ProgramOp>(rows.getParentBlock()->getParentOp());
    if (!program)
      program = rows.getParentBlock()->getParentOp()->getParentOfType<ProgramOp>();
    auto scaled = channel.getDefiningOp<arith::MulIOp>();
    if (!program || !scaled || scaled.getLhs() != program.getSlice() ||
        !matchPattern(scaled.getRhs(), m_ConstantInt(&perSlice)))
      return {};
    if (perSlice.getSExtValue() % block)
      return {};
    largest = perSlice.getSExtValue() * (program.getSlices() - 1);
  }
  return largest % block ? std::nullopt : std::optional(largest);
}

bool ejk::isTmaTile(Value rows, Value channel, VectorType type, LayoutAttr layout) {
  constexpr int64_t kAlignment = 16; // of which a tensor map's strides are multiples
  auto row = dyn_cast<VectorType>(cast<RowsType>(rows.getType()).getRow());
  if (!row || type.getRank() != 2 || row.getElementType() != type.getElementType())
    return false;
  unsigned bytes = KernelBuilder::bytesOf(row.getElementType());
  bool isAsCopied =
      isSwizzledWords(layout) || (bytes == 2 && layout.getKind() == LayoutKind::swizzled);
  int64_t columns = type.getDimSize(1), block = blockColumns(row.getElementType());
  return isAsCopied && largestFirst(rows, channel) && type.getDimSize(0) <= kMaxTmaTileSize &&
         columns <= kMaxTmaTileSize * block && columns % block == 0 &&
         row.getDimSize(0) * bytes % kAlignment == 0;
}

bool ejk::hasPartialBlocks(Value rows, Value channel, VectorType type) {
  int64_t channels = cast<VectorType>(cast<RowsType>(rows.getType()).getRow()).getDimSize(0);
  return channels % blockColumns(type.getElementType()) != 0 ||
         *largestFirst(rows, channel) + type.getDimSize(1) > channels;
}

std::pair<int64_t, int64_t> ejk::tmaTileShape(Type tile) {
  auto type = cast<VectorType>(tile);
  return {type.getDimSize(0), type.getDimSize(1) / blockColumns(type.getElementType())};
}

/// Whether threads are too busy to issue copies, which TMA takes from them: they read at least a
/// third of the copied tiles into registers, for example to scale them, or there is much to copy.
/// Where matmuls read almost all tiles from shared memory, threads have the time, and the one warp
/// that issues TMA's copies arrives late at the barrier that the others wait at. So they have where
/// f32 rows are copied far ahead.
static bool areBusy(ArrayRef<MakeRingOp> rings) {
  unsigned all = 0, read = 0;
  int64_t bits = 0;
  for (MakeRingOp ring : rings) {
    ArrayRef<Type> tiles = ring.getRing().getType().getTiles();
    for (unsigned i = 0; i < tiles.size(); ++i) {
      auto type = cast<VectorType>(tiles[i]);
      if (type.getElementType().isF32() && !isVectorTile(type) &&
          ring.getRing().getType().getStages() >= cost::kStagesCopiedByThreads)
        return false;
      bits += type.getNumElements() * type.getElementTypeBitWidth();
      if (isVectorTile(type))
        continue;
      ++all;
      read += llvm::any_of(ring->getUsers(), [&](Operation *user) {
        auto take = dyn_cast<TakeOp>(user);
        return take && llvm::any_of(take.getTiles()[i].getUsers(), [](Operation *reader) {
                 return isa<ConvertOp>(reader) && isFragments(layoutOf(reader->getResult(0)));
               });
      });
    }
  }
  return 3 * read >= all || bits / 8 > cost::kMostBytesCopiedByThreads;
}

SmallVector<FillOp> ejk::fillsOf(MakeRingOp ring) {
  SmallVector<FillOp> fills;
  for (Operation *user : ring->getUsers())
    if (auto fill = dyn_cast<FillOp>(user))
      fills.push_back(fill);
  return fills;
}

/// Whether the item of `fill` is known: the counter of `loop` plus a constant inside it, a constant
/// before it.
static bool fillsKnown(FillOp fill, scf::ForOp loop) {
  APInt number;
  return loop->isProperAncestor(fill)
             ? itemsAhead(loop.getInductionVar(), fill.getItem()).has_value()
             : matchPattern(fill.getItem(), m_ConstantInt(&number));
}

/// Whether each iteration of `loop` takes the item `ahead` of its counter, in its body or on both
/// sides of a branch.
static bool takesAhead(scf::ForOp loop, MakeRingOp ring, int64_t ahead) {
  llvm::DenseSet<Block *> blocks;
  for (Operation *user : ring->getUsers())
    if (auto take = dyn_cast<TakeOp>(user);
        take && !take.getHeld() && loop->isAncestor(take) &&
        itemsAhead(loop.getInductionVar(), take.getItem()) == ahead)
      blocks.insert(take->getBlock());
  auto takesInBoth = [&](Operation &op) {
    Branch branch = Branch::of(&op);
    return branch && branch.elseBlock() && blocks.contains(branch.thenBlock()) &&
           blocks.contains(branch.elseBlock());
  };
  return blocks.contains(loop.getBody()) ||
         llvm::any_of(*loop.getBody(), takesInBoth);
}

/// The items that `takes`, of one partition or a program without, take; the loop in `loop`.
static std::optional<TakenItems> takenBy(MakeRingOp ring, ArrayRef<TakeOp> takes,
                                         scf::ForOp &loop) {
  int64_t most = 0;
  llvm::DenseSet<int64_t> inFront;
  for (TakeOp take : takes) {
    APInt number;
    auto parent = take->getParentOfType<scf::ForOp>();
    if (!parent && matchPattern(take.getItem(), m_ConstantInt(&number)))
      inFront.insert(number.getSExtValue());
    if (!parent)
      continue;
    std::optional<int64_t> ahead = itemsAhead(parent.getInductionVar(), take.getItem());
    if (!ahead || *ahead < 0 || (loop && loop != parent))
      return {};
    loop = parent;
    most = std::max(most, *ahead);
  }
  if (!loop || !isa<ProgramOp, PartitionOp>(loop->getParentOp()) ||
      !matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()) ||
      !takesAhead(loop, ring, most))
    return {};
  // Exactly the items that no iteration takes are taken before the loop.
  if (int64_t(inFront.size()) != most ||
      !llvm::all_of(llvm::seq<int64_t>(0, most), [&](int64_t i) { return inFront.contains(i); }))
    return {};
  return TakenItems{loop.getUpperBound(), most};
}

std::optional<TakenItems> ejk::takenOf(MakeRingOp ring) {
  llvm::MapVector<Operation *, SmallVector<TakeOp>> takers;
  for (Operation *user : ring->getUsers())
    if (auto take = dyn_cast<TakeOp>(user))
      takers[take->getParentOfType<PartitionOp>()].push_back(take);
  SmallVector<FillOp> fills = fillsOf(ring);
  if (takers.empty() || fills.empty())
    return {};
  // All takers take the same items. The fills follow the loop of their own partition.
  std::optional<TakenItems> taken;
  scf::ForOp loop;
  for (auto &[partition, takes] : takers) {
    scf::ForOp own;
    std::optional<TakenItems> items = takenBy(ring, takes, own);
    if (!items || (taken && (taken->count != items->count || taken->more != items->more)))
      return {};
    taken = items;
    if (partition == fills.front()->getParentOfType<PartitionOp>().getOperation())
      loop = own;
  }
  if (!loop)
    return {};
  Operation *made = loop.getUpperBound().getDefiningOp();
  bool isBeforeAll = llvm::all_of(fills, [&](FillOp fill) {
    Operation *within = made ? made->getBlock()->findAncestorOpInBlock(*fill) : nullptr;
    return fillsKnown(fill, loop) && (!made || (within && made->isBeforeInBlock(within)));
  });
  if (!isBeforeAll)
    return {};
  return taken;
}

bool ejk::usesTmaLoads(ProgramOp program, bool forPartitions) {
  SmallVector<MakeRingOp> rings;
  for (auto ring : program.getBlock().getOps<MakeRingOp>())
    if (!isOfComputedTiles(ring))
      rings.push_back(ring);
  // A producer's warps copy by themselves.
  bool hasProducer = llvm::any_of(rings, [](MakeRingOp ring) {
    return llvm::any_of(fillsOf(ring), [&](FillOp fill) {
      auto partition = fill->getParentOfType<PartitionOp>();
      return partition && llvm::none_of(ring->getUsers(), [&](Operation *user) {
        return isa<TakeOp>(user) && partition->isAncestor(user);
      });
    });
  });
  // A partition fills rings for the other one, too, whose threads do not wait for its copies.
  bool isWorth = forPartitions || partitionsOf(program) || areBusy(rings);
  if (!program->hasAttr(kWarpgroupsAttr) || rings.empty() || hasProducer || !isWorth)
    return false;
  auto isFilledByTma = [&](FillOp fill, TakeOp take) {
    return llvm::all_of(llvm::seq<unsigned>(0, fill.getRows().size()), [&](unsigned i) {
      Value arg = argOf(fill.getRows()[i]);
      bool isPassed = llvm::is_contained(program.getSequenceArgs(), arg) ||
                      llvm::is_contained(program.getSavedArgs(), arg);
      if (isVectorTile(take.getTiles()[i].getType()))
        return true; // one warp copies vectors
      return isPassed && isTmaTile(fill.getRows()[i], fill.getChannels()[i],
                                   cast<VectorType>(take.getTiles()[i].getType()),
                                   layoutOf(take.getTiles()[i]));
    });
  };
  return llvm::all_of(rings, [&](MakeRingOp ring) {
    TakeOp take = takeOf(ring);
    return take && takenOf(ring) &&
           llvm::all_of(fillsOf(ring), [&](FillOp fill) { return isFilledByTma(fill, take); });
  });
}
