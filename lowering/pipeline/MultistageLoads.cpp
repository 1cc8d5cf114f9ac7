//===- MultistageLoads.cpp - rows copied ahead of the loop that reads them ---===//
//
// Rows of an iteration that does not come lie outside the sequence, or are of no
// use: they are zeros or never read.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/Passes.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ejk {
#define GEN_PASS_DEF_MULTISTAGELOADS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether the index `value` of `loop`'s body follows from its counter and what
/// is known before it, and may be computed for any counter.
static bool followsFromCounter(Value value, scf::ForOp loop) {
  if (!loop.getRegion().isAncestor(value.getParentRegion()) || value == loop.getInductionVar())
    return true;
  Operation *def = value.getDefiningOp();
  return def && isPure(def) &&
         (isa<arith::ArithDialect>(def->getDialect()) || isa<CellRowsOp>(def)) &&
         llvm::all_of(def->getOperands(), [&](Value v) { return followsFromCounter(v, loop); });
}

/// Why `load` cannot be copied ahead of `loop`'s iteration; empty where it can.
static StringRef obstacle(LoadOp load, scf::ForOp loop) {
  if (LayoutAttr layout = layoutOf(load); layout && !isInShared(layout))
    return "it does not go to shared memory";
  if (copyBytes(load.getRows().getType(), load.getChannel()) < 4)
    return "its rows are too narrow, or not aligned, to be copied asynchronously";
  if (!llvm::all_of(load->getOperands(), [&](Value v) { return followsFromCounter(v, loop); }))
    return "its rows follow from more than the loop's counter";
  if (llvm::is_contained(loop.getYieldedValues(), load.getResult()))
    return "it is handed on to the next iteration";
  if (llvm::any_of(load->getUsers(), [](Operation *user) { return isa<scf::YieldOp>(user); }))
    return "a branch or a loop gives it";
  return {};
}

namespace {
/// Gives one loop a ring.
class Stager {
public:
  /// `late`: whether an iteration waits where it first uses a tile, not where it starts.
  Stager(scf::ForOp loop, ArrayRef<LoadOp> loads, int64_t stages, bool late)
      : loop(loop), loads(loads), stages(stages), late(late), b(loop), loc(loop.getLoc()) {}

  void run() {
    SmallVector<Type> tiles =
        llvm::map_to_vector(loads, [](LoadOp load) -> Type { return load.getType(); });
    ring = MakeRingOp::create(b, loc, RingType::get(b.getContext(), stages, tiles));
    int64_t distance = std::max<int64_t>(stages - 1, 1);
    for (int64_t item = 0; item < distance; ++item)
      fill(ahead(loop.getLowerBound(), item));

    Value counter = loop.getInductionVar();
    b.setInsertionPoint(late ? firstUse() : &loop.getBody()->front());
    Value item = itemOf(counter);
    auto take = TakeOp::create(b, loc, tiles, ring, item);
    // With one stage, it must be free first.
    if (stages > 1) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(behindFirstProducts(take));
      fill(ahead(counter, distance));
    }
    setLayouts(take);
    for (auto [i, tile] : llvm::enumerate(take.getTiles()))
      LoadOp(loads[i]).getResult().replaceAllUsesWith(tile);
    Operation *last = lastUse(take);
    if (auto branch = dyn_cast<scf::IfOp>(last); branch && stages == 1 && branch.elseBlock()) {
      // Copies for the next iteration start when it is known that this one needs no more.
      setBehindLastUse(take, *branch.thenBlock());
      handOn(item, ahead(counter, distance));
      FillOp next = nextFill(*branch.thenBlock());
      b.setInsertionPoint(next ? releaseOf(next.getRing(), *branch.elseBlock())
                               : branch.elseBlock()->getTerminator());
      handOn(item, ahead(counter, distance));
    } else {
      b.setInsertionPointAfter(last);
      ReleaseOp::create(b, loc, ring, item);
      if (stages == 1)
        fillBehind(last, ahead(counter, distance));
    }
    for (LoadOp load : loads)
      load.erase();
  }

private:
  /// The counter `iterations` behind `counter`.
  Value ahead(Value counter, int64_t iterations) {
    Value number = arith::ConstantIndexOp::create(b, loc, iterations);
    return b.createOrFold<arith::AddIOp>(
        loc, counter, b.createOrFold<arith::MulIOp>(loc, number, loop.getStep()));
  }
  /// The number of the iteration that counts `counter`.
  Value itemOf(Value counter) {
    if (!matchPattern(loop.getLowerBound(), m_Zero()))
      counter = b.createOrFold<arith::SubIOp>(loc, counter, loop.getLowerBound());
    if (!matchPattern(loop.getStep(), m_One()))
      counter = b.createOrFold<arith::DivUIOp>(loc, counter, loop.getStep());
    return counter;
  }

  /// `index` of the body, for the counter in `known`.
  Value indexFor(Value index, IRMapping &known) {
    if (Value value = known.lookupOrNull(index))
      return value;
    if (!loop.getRegion().isAncestor(index.getParentRegion()))
      return index;
    Operation *def = index.getDefiningOp();
    for (Value operand : def->getOperands())
      known.map(operand, indexFor(operand, known));
    Value value = b.clone(*def, known)->getResult(cast<OpResult>(index).getResultNumber());
    known.map(index, value);
    return value;
  }

  /// The item that is filled, of the iteration that counts `counter`.
  void fill(Value counter) {
    Value item = itemOf(counter);
    IRMapping known;
    known.map(loop.getInductionVar(), counter);
    SmallVector<Value> rows, first, channels;
    for (LoadOp load : loads) {
      rows.push_back(indexFor(load.getRows(), known));
      first.push_back(indexFor(load.getFirst(), known));
      channels.push_back(indexFor(load.getChannel(), known));
    }
    AcquireOp::create(b, loc, ring, item);
    FillOp::create(b, loc, ring, item, rows, first, channels);
  }

  /// Fills the item of the iteration that counts `next` behind a release that follows `last`.
  /// Copies start in the order in which iterations wait for them.
  void fillBehind(Operation *last, Value next) {
    for (auto other : loop.getBody()->getOps<FillOp>())
      if (last->isBeforeInBlock(other))
        last = other;
    if (isa<FillOp>(last))
      b.setInsertionPointAfter(last);
    fill(next);
  }

  /// Hands the stage of `item` on to the iteration that counts `next`.
  void handOn(Value item, Value next) {
    ReleaseOp::create(b, loc, ring, item);
    fill(next);
  }

  /// Who uses `tile`: running sums that take it from where it lies, too, and sums of what is made
  /// of it in registers, for what was asked for is there when they are stored, no sooner.
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

  /// The first item that another ring is given behind what was made in `block` last.
  FillOp nextFill(Block &block) {
    for (Operation &op : llvm::make_range(b.getInsertionPoint(), block.end()))
      if (auto fill = dyn_cast<FillOp>(op))
        return fill;
    return {};
  }
  /// Where `ring`'s item is released in `block`.
  static Operation *releaseOf(Value ring, Block &block) {
    for (auto release : block.getOps<ReleaseOp>())
      if (release.getRing() == ring)
        return release;
    return block.getTerminator();
  }

  /// Makes ops in `block`, which holds all later uses of the tiles, where none is used any more: of
  /// a product, where it is awaited.
  void setBehindLastUse(TakeOp take, Block &block) {
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
    if (isProduct(last))
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

  /// The op in front of which copies start: behind `take` and, where products are taken by
  /// warps in groups, behind the first of these, which go on meanwhile.
  Operation *behindFirstProducts(TakeOp take) {
    Operation *next = take->getNextNode();
    if (!take->getParentOfType<ProgramOp>()->hasAttr(kWarpgroupsAttr))
      return next;
    for (Operation *op = next; op; op = op->getNextNode())
      if (isProduct(op) && !(op->getNextNode() && isProduct(op->getNextNode())))
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
  bool late;
  OpBuilder b;
  Location loc;
  Value ring;
};
} // namespace

bool ejk::isProduct(Operation *op) {
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

/// Whether nothing but a branch, or several, uses what `load` loads.
static bool isForBranch(LoadOp load) {
  return !load->use_empty() && llvm::all_of(load->getUsers(), [&](Operation *user) {
    Operation *inBody = load->getBlock()->findAncestorOpInBlock(*user);
    return isa<scf::IfOp>(inBody);
  });
}

StagedLoads ejk::multistageLoads(ProgramOp program, unsigned stages, bool apart) {
  StagedLoads result;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>())) {
    SmallVector<LoadOp> early, late;
    for (auto load : loop.getBody()->getOps<LoadOp>())
      if (StringRef why = obstacle(load, loop); why.empty())
        (load.getRows().getDefiningOp<CellRowsOp>() ? late : early).push_back(load);
      else
        result.declined.push_back({load, why});
    SmallVector<LoadOp> forBranch;
    if (!llvm::all_of(early, isForBranch) && (apart || (stages == 1 && !late.empty()))) {
      llvm::copy_if(early, std::back_inserter(forBranch), isForBranch);
      llvm::erase_if(early, isForBranch);
    }
    // With one stage, what is used late is copied and waited for late, with the saved states.
    if (!apart) {
      late.insert(late.begin(), forBranch.begin(), forBranch.end());
      forBranch.clear();
    }
    if (!early.empty())
      Stager(loop, early, stages, /*late=*/false).run();
    if (!forBranch.empty())
      Stager(loop, forBranch, stages, /*late=*/true).run();
    if (!late.empty())
      Stager(loop, late, /*stages=*/1, /*late=*/true).run();
    result.rings += !early.empty() + !forBranch.empty() + !late.empty();
    result.staged += early.size() + forBranch.size() + late.size();
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
