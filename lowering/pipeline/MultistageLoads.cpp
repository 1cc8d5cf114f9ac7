//===- MultistageLoads.cpp - multi-stage copies to shared memory -----------===//
//
// Replaces loads in loops by asynchronous copies into a ring of stages, so that the copy for
// iteration i + N - 1 runs while iteration i computes. Copies for iterations past the last one read
// no rows of the sequence, so they write zeros, or they are never taken.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/MultistageLoads.h"
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {
#define GEN_PASS_DEF_MULTISTAGELOADS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether the index `value` depends only on the loop's counter and on values from before the loop,
/// so that it can be computed for any iteration.
static bool followsFromCounter(Value value, scf::ForOp loop) {
  if (!loop.getRegion().isAncestor(value.getParentRegion()) || value == loop.getInductionVar())
    return true;
  Operation *def = value.getDefiningOp();
  return def && isPure(def) &&
         (isa<arith::ArithDialect>(def->getDialect()) || isa<SlotRowsOp>(def)) &&
         llvm::all_of(def->getOperands(), [&](Value v) { return followsFromCounter(v, loop); });
}

/// Whether `value` differs from iteration to iteration.
static bool dependsOnCounter(Value value, scf::ForOp loop) {
  if (value == loop.getInductionVar())
    return true;
  Operation *def = value.getDefiningOp();
  return def && loop->isProperAncestor(def) &&
         llvm::any_of(def->getOperands(), [&](Value v) { return dependsOnCounter(v, loop); });
}

/// Clones the computation of `index`, which follows from `loop`'s counter, for the counter in `known`.
static Value indexFor(OpBuilder &b, scf::ForOp loop, Value index, IRMapping &known) {
  if (Value value = known.lookupOrNull(index))
    return value;
  if (!loop.getRegion().isAncestor(index.getParentRegion()))
    return index;
  Operation *def = index.getDefiningOp();
  for (Value operand : def->getOperands())
    known.map(operand, indexFor(b, loop, operand, known));
  Value value = b.clone(*def, known)->getResult(cast<OpResult>(index).getResultNumber());
  known.map(index, value);
  return value;
}

/// Asks beside `load`, into registers, for the rows that it takes in the next iteration of `loop`. Nothing
/// is gained where threads copy rows to shared memory: GLA's gradients take 1.31 -> 1.41 ms at 4, 4096, 64 heads.
static void askAhead(LoadOp load, scf::ForOp loop) {
  if (load.getRows().getDefiningOp<SlotRowsOp>() || isInShared(layoutOf(load)) ||
      !llvm::all_of(load->getOperands(), [&](Value v) { return followsFromCounter(v, loop); }))
    return;
  OpBuilder b(load);
  IRMapping known;
  known.map(loop.getInductionVar(),
            b.createOrFold<arith::AddIOp>(load.getLoc(), loop.getInductionVar(), loop.getStep()));
  Value rows = indexFor(b, loop, load.getRows(), known),
        first = indexFor(b, loop, load.getFirst(), known);
  PrefetchOp::create(b, load.getLoc(), rows, first, indexFor(b, loop, load.getChannel(), known),
                     TypeAttr::get(load.getType()));
}

/// Why `load` cannot be issued before `loop`'s iteration; empty if it can.
static StringRef obstacle(LoadOp load, scf::ForOp loop) {
  if (LayoutAttr layout = layoutOf(load); layout && !isInShared(layout))
    return "it does not go to shared memory";
  if (copyBytes(load) < 4)
    return "its rows are too narrow, or not aligned, to be copied asynchronously";
  if (!llvm::all_of(load->getOperands(), [&](Value v) { return followsFromCounter(v, loop); }))
    return "its rows follow from more than the loop's counter";
  // Rows past the last are not copied, but columns past the last are an error.
  if (dependsOnCounter(load.getChannel(), loop))
    return "its columns follow from the loop's counter";
  if (llvm::is_contained(loop.getYieldedValues(), load.getResult()))
    return "it is handed on to the next iteration";
  if (llvm::any_of(load->getUsers(), [](Operation *user) { return isa<scf::YieldOp, tile::YieldOp>(user); }))
    return "a branch or a loop gives it";
  return {};
}

namespace {
/// Replaces loads of one loop by a ring.
class RingBuilder {
public:
  /// `late`: wait for the copies at the first use of a tile, not at the start of the iteration.
  /// `refills`: copy into a stage as soon as it is released, as is done with one stage, not in the
  /// next iteration.
  RingBuilder(scf::ForOp loop, ArrayRef<LoadOp> loads, int64_t stages, bool late,
              bool refills = false)
      : loop(loop), loads(loads), stages(stages), late(late), refills(refills || stages == 1),
        b(loop), loc(loop.getLoc()) {}

  void run() {
    SmallVector<Type> tiles =
        llvm::map_to_vector(loads, [](LoadOp load) -> Type { return load.getType(); });
    {
      OpBuilder::InsertionGuard guard(b);
      if (auto partitions = loop->getParentOfType<WarpSpecializeOp>())
        b.setInsertionPoint(partitions);
      ring = MakeRingOp::create(b, loc, RingType::get(b.getContext(), stages, tiles), /*tma=*/false,
                                /*place=*/IntegerAttr(), /*mbarriers=*/IntegerAttr());
    }
    int64_t distance = refills ? stages : stages - 1;
    for (int64_t item = 0; item < distance; ++item)
      fill(ahead(loop.getLowerBound(), item));

    Value counter = loop.getInductionVar();
    b.setInsertionPoint(late ? firstUse() : &loop.getBody()->front());
    Value item = itemOf(counter);
    auto take = TakeOp::create(b, loc, tiles, ring, item);
    if (!refills) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(afterFirstMatmuls(take));
      fill(ahead(counter, distance));
    }
    setLayouts(take);
    for (auto [i, tile] : llvm::enumerate(take.getTiles()))
      LoadOp(loads[i]).getResult().replaceAllUsesWith(tile);
    Operation *last = lastUse(take);
    if (Branch branch = Branch::of(last); branch && stages == 1 && branch.elseBlock()) {
      // Refill in each branch, as soon as its last use is done.
      setAfterLastUse(take, *branch.thenBlock());
      releaseAndFill(item, ahead(counter, distance));
      FillOp next = nextFill(*branch.thenBlock());
      b.setInsertionPoint(next ? releaseOf(next.getRing(), *branch.elseBlock())
                               : branch.elseBlock()->getTerminator());
      releaseAndFill(item, ahead(counter, distance));
    } else {
      b.setInsertionPointAfter(last);
      ReleaseOp::create(b, loc, ring, item);
      if (stages == 1)
        fillAfter(last, ahead(counter, distance));
      else if (refills)
        fillAtEnd(ahead(counter, distance));
    }
    for (LoadOp load : loads)
      load.erase();
  }

private:
  /// The counter `iterations` iterations after `counter`.
  Value ahead(Value counter, int64_t iterations) {
    Value number = arith::ConstantIndexOp::create(b, loc, iterations);
    return b.createOrFold<arith::AddIOp>(
        loc, counter, b.createOrFold<arith::MulIOp>(loc, number, loop.getStep()));
  }
  /// The item number of the iteration with `counter`.
  Value itemOf(Value counter) {
    if (!matchPattern(loop.getLowerBound(), m_Zero()))
      counter = b.createOrFold<arith::SubIOp>(loc, counter, loop.getLowerBound());
    if (!matchPattern(loop.getStep(), m_One()))
      counter = b.createOrFold<arith::DivUIOp>(loc, counter, loop.getStep());
    return counter;
  }

  /// Fills the item of the iteration with counter `counter`.
  void fill(Value counter) {
    Value item = itemOf(counter);
    IRMapping known;
    known.map(loop.getInductionVar(), counter);
    SmallVector<Value> rows, first, channels;
    for (LoadOp load : loads) {
      rows.push_back(indexFor(b, loop, load.getRows(), known));
      first.push_back(indexFor(b, loop, load.getFirst(), known));
      channels.push_back(indexFor(b, loop, load.getChannel(), known));
    }
    AcquireOp::create(b, loc, ring, item);
    FillOp::create(b, loc, ring, item, rows, first, channels);
  }

  /// Fills the item of the iteration with counter `next` after its release, which follows `last`.
  /// Copies are issued in the order in which iterations wait for them.
  void fillAfter(Operation *last, Value next) {
    for (auto other : loop.getBody()->getOps<FillOp>())
      if (last->isBeforeInBlock(other))
        last = other;
    if (isa<FillOp>(last))
      b.setInsertionPointAfter(last);
    fill(next);
  }

  /// Fills the item of the iteration with counter `next` at the end of this one, which waits for no
  /// matmul earlier than the next iteration would.
  void fillAtEnd(Value next) {
    b.setInsertionPoint(loop.getBody()->getTerminator());
    fill(next);
  }

  /// Releases the stage of `item` and fills it for the iteration with counter `next`.
  void releaseAndFill(Value item, Value next) {
    ReleaseOp::create(b, loc, ring, item);
    fill(next);
  }

  /// The readers of `tile`: its users, cumsums that read it from shared memory, and reductions of
  /// elementwise ops on it. The last are included because an outstanding load has certainly
  /// completed only when its reduction is stored.
  static SmallVector<Operation *> readersOf(Value tile) {
    SmallVector<Operation *> readers(tile.getUsers());
    for (Operation *user : tile.getUsers()) {
      llvm::append_range(readers, cumsumsReadBy(user));
      if (isa<ConvertOp>(user) && isFragments(layoutOf(user->getResult(0))))
        addSumsOf(user, readers);
    }
    return readers;
  }
  static void addSumsOf(Operation *op, SmallVector<Operation *> &sums) {
    for (Operation *user : op->getUsers())
      if (isa<tile::SumOp>(user))
        sums.push_back(user);
      else if (OpTrait::hasElementwiseMappableTraits(user))
        addSumsOf(user, sums);
  }

  /// The first fill of another ring after the insertion point in `block`.
  FillOp nextFill(Block &block) {
    for (Operation &op : llvm::make_range(b.getInsertionPoint(), block.end()))
      if (auto fill = dyn_cast<FillOp>(op))
        return fill;
    return {};
  }
  /// The release of `ring` in `block`, or the end of the block.
  static Operation *releaseOf(Value ring, Block &block) {
    for (auto release : block.getOps<ReleaseOp>())
      if (release.getRing() == ring)
        return release;
    return block.getTerminator();
  }

  /// Sets the insertion point in `block` after the last use of the tiles. The use by a matmul ends
  /// where the matmul is waited for.
  void setAfterLastUse(TakeOp take, Block &block) {
    auto usersHere = [&](ValueRange values) {
      SmallVector<Operation *> users;
      for (Value value : values)
        for (Operation *user : readersOf(value))
          if (Operation *here = block.findAncestorOpInBlock(*user))
            users.push_back(here);
      llvm::sort(users, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
      return users;
    };
    SmallVector<Operation *> users = usersHere(take.getTiles());
    if (users.empty())
      return b.setInsertionPointToStart(&block);
    Operation *last = users.back();
    if (runsOnTensorCores(last))
      for (Operation *user : usersHere(last->getResults()))
        if (!user->hasTrait<OpTrait::IsTerminator>()) {
          last = user;
          break;
        }
    b.setInsertionPointAfter(last);
  }

  void setLayouts(TakeOp take) {
    SmallVector<Attribute> layouts;
    for (LoadOp load : loads)
      if (LayoutAttr layout = layoutOf(load))
        layouts.push_back(layout);
    if (layouts.size() == loads.size())
      take->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
  }

  /// The op before which to issue copies: after `take`, and with `wgmma` also after the first
  /// matmuls, which run asynchronously meanwhile.
  Operation *afterFirstMatmuls(TakeOp take) {
    Operation *next = take->getNextNode();
    if (!take->getParentOfType<ProgramOp>()->hasAttr(kWarpgroupsAttr))
      return next;
    for (Operation *op = next; op; op = op->getNextNode())
      if (runsOnTensorCores(op) && !(op->getNextNode() && runsOnTensorCores(op->getNextNode())))
        return op->getNextNode();
    return next;
  }

  Operation *firstUse() {
    Operation *first = loads.front();
    for (LoadOp load : loads)
      for (Operation *user : load->getUsers()) {
        Operation *inBody = loop.getBody()->findAncestorOpInBlock(*user);
        if (first == load || inBody->isBeforeInBlock(first))
          first = inBody;
      }
    return first;
  }

  Operation *lastUse(TakeOp take) {
    Operation *last = &*std::prev(b.getInsertionPoint());
    for (Value tile : take.getTiles())
      for (Operation *user : readersOf(tile)) {
        Operation *inBody = loop.getBody()->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(inBody))
          last = inBody;
      }
    return last;
  }

  scf::ForOp loop;
  ArrayRef<LoadOp> loads;
  int64_t stages;
  bool late, refills;
  OpBuilder b;
  Location loc;
  Value ring;
};
} // namespace

bool ejk::runsOnTensorCores(Operation *op) {
  auto sum = dyn_cast<CumsumOp>(op);
  return isa<DotOp>(op) || (sum && isFragments(layoutOf(sum.getResult())));
}

std::optional<int64_t> ejk::itemsAhead(Value counter, Value item) {
  if (item == counter)
    return 0;
  auto sum = item.getDefiningOp<arith::AddIOp>();
  APInt number;
  if (!sum || sum.getLhs() != counter || !matchPattern(sum.getRhs(), m_ConstantInt(&number)))
    return std::nullopt;
  return number.getSExtValue();
}

/// Whether only branches use `load`.
static bool isForBranch(LoadOp load) {
  return !load->use_empty() && llvm::all_of(load->getUsers(), [&](Operation *user) {
    Operation *inBody = load->getBlock()->findAncestorOpInBlock(*user);
    return Branch::is(inBody);
  });
}

/// A matrix in f32: gates of channels, or rows of f32 matmuls.
static bool isWide(LoadOp load) {
  auto type = cast<VectorType>(load.getType());
  return type.getRank() == 2 && type.getElementType().isF32();
}

/// Saved states are larger than rows, and used later.
static bool isOfSavedState(LoadOp load) {
  return load.getRows().getDefiningOp<SlotRowsOp>() && !isVectorTile(load.getType());
}

/// Loads `load`'s tile once more on the exact path of each branch that uses it there. Its range of
/// shared memory is then free on the fast path.
static void reloadOnExactPaths(LoadOp load) {
  llvm::MapVector<Block *, SmallVector<OpOperand *>> uses;
  for (OpOperand &use : load->getUses()) {
    Operation *inBody = load->getBlock()->findAncestorOpInBlock(*use.getOwner());
    auto paths = dyn_cast<GuardedOp>(inBody);
    if (paths && paths.getExact().isAncestor(use.getOwner()->getParentRegion()))
      uses[paths.getExactBlock()].push_back(&use);
  }
  for (auto &[block, operands] : uses) {
    OpBuilder b = OpBuilder::atBlockBegin(block);
    Operation *again = b.clone(*load);
    for (OpOperand *use : operands)
      use->set(again->getResult(0));
  }
}

/// Where tiles are soon free that are read no more there: at a loop's branch, or at a matmul
/// (cost::kSoonFreeMatmuls); null if there is none.
static Operation *endOfSoonFree(scf::ForOp loop) {
  auto program = loop->getParentOfType<ProgramOp>();
  for (auto branch : loop.getBody()->getOps<GuardedOp>())
    return program->hasAttr(kWarpgroupsAttr) &&
                   registersOfLiveTiles(program) <= cost::kRegistersBesideSoonFree
               ? branch
               : GuardedOp();
  SmallVector<DotOp> dots(loop.getBody()->getOps<DotOp>());
  return dots.size() < 2 ? DotOp() : dots[dots.size() / cost::kSoonFreeMatmuls];
}

/// Whether `op` takes one row of a matrix, which is the same in each iteration, to registers. A
/// branch may have that before it.
static bool isOfOneRow(Operation *op) {
  auto extract = dyn_cast<vector::ExtractOp>(op);
  return extract && !extract.hasDynamicPosition() && isa<VectorType>(extract.getType()) &&
         isRows(layoutOf(extract.getResult()));
}

/// Moves the loads whose tiles are soon free from `loads` to another list. A ring of one stage is
/// refilled after the last of its tiles is read, so they have their own.
static SmallVector<LoadOp> takeSoonFree(SmallVector<LoadOp> &loads, scf::ForOp loop) {
  SmallVector<LoadOp> soon;
  Operation *end = endOfSoonFree(loop);
  if (!end)
    return soon;
  auto isSoonFree = [&](LoadOp load) {
    return llvm::all_of(load->getUsers(), [&](Operation *user) {
      return end->isAncestor(user)
                 ? isOfOneRow(user)
                 : loop.getBody()->findAncestorOpInBlock(*user)->isBeforeInBlock(end);
    });
  };
  llvm::copy_if(loads, std::back_inserter(soon), isSoonFree);
  if (soon.size() == loads.size())
    return {};
  llvm::erase_if(loads, isSoonFree);
  for (LoadOp load : soon)
    for (Operation *user : llvm::make_early_inc_range(load->getUsers()))
      if (end->isProperAncestor(user))
        user->moveBefore(end);
  return soon;
}

StagedLoads ejk::multistageLoads(ProgramOp program, unsigned stages, bool apart, bool wide,
                                 bool refills) {
  StagedLoads result;
  SmallVector<scf::ForOp> loops(program.getBlock().getOps<scf::ForOp>());
  for (auto partitions : program.getBlock().getOps<WarpSpecializeOp>())
    for (auto partition : partitions.getBody().getOps<PartitionOp>())
      llvm::append_range(loops, partition.getBody().getOps<scf::ForOp>());
  for (scf::ForOp loop : loops) {
    SmallVector<LoadOp> early, late;
    for (auto load : loop.getBody()->getOps<LoadOp>())
      if (!wide && isWide(load)) {
        reloadOnExactPaths(load);
        askAhead(load, loop);
        result.declined.push_back({load, "there is no room for a stage of it"});
      } else if (StringRef why = obstacle(load, loop); why.empty())
        (isOfSavedState(load) ? late : early).push_back(load);
      else {
        if (isWide(load))
          askAhead(load, loop);
        result.declined.push_back({load, why});
      }
    // On an H200 gradients of KDA with a bound take 5.43 -> 5.34 ms for that at 4, 4096, 64 heads.
    if (program.getCorrects())
      for (auto paths : loop.getBody()->getOps<GuardedOp>())
        for (auto load : paths.getFastBlock()->getOps<LoadOp>())
          if (isWide(load))
            askAhead(load, loop);
    SmallVector<LoadOp> forBranch;
    if (!llvm::all_of(early, isForBranch) && (apart || (stages == 1 && !late.empty()))) {
      llvm::copy_if(early, std::back_inserter(forBranch), isForBranch);
      llvm::erase_if(early, isForBranch);
    }
    // With one stage, loads that are used late are copied and waited for late, together with the
    // saved states.
    if (!apart) {
      late.insert(late.begin(), forBranch.begin(), forBranch.end());
      forBranch.clear();
    }
    SmallVector<LoadOp> soonFree;
    if (stages == 1)
      soonFree = takeSoonFree(early, loop);
    if (!soonFree.empty())
      RingBuilder(loop, soonFree, stages, /*late=*/false).run();
    if (!early.empty())
      RingBuilder(loop, early, stages, /*late=*/!soonFree.empty(), refills).run();
    if (!forBranch.empty())
      RingBuilder(loop, forBranch, stages, /*late=*/true).run();
    if (!late.empty())
      RingBuilder(loop, late, /*stages=*/1, /*late=*/true).run();
    result.rings += !soonFree.empty() + !early.empty() + !forBranch.empty() + !late.empty();
    result.staged += soonFree.size() + early.size() + forBranch.size() + late.size();
  }
  return result;
}

namespace {
struct MultistageLoadsPass : ejk::impl::MultistageLoadsBase<MultistageLoadsPass> {
  using MultistageLoadsBase::MultistageLoadsBase;
  void runOnOperation() override {
    if (stages < 1) {
      getOperation()->emitError() << "'stages' must be positive, but is " << int64_t(stages);
      return signalPassFailure();
    }
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) {
      StagedLoads done = multistageLoads(program, stages, apart);
      numRings += done.rings;
      numStaged += done.staged;
      numDeclined += done.declined.size();
      for (auto [load, why] : done.declined)
        load.emitRemark("not copied ahead: ") << why;
    });
  }
};
} // namespace
