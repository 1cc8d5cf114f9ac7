//===- PipelineBranchOperands.cpp - the next chunk's factors in a branch ------------===//
//
// What an iteration makes of its item in front of its branch, factors, the check that chooses
// a side and vectors, keeps threads busy while products wait; the branch's products keep tensor
// cores busy while threads wait. So the next item's is made in the branch: running sums, which
// are products, in front of the last ones, the rest behind them. The loop carries it, in
// registers or, where it lies in shared memory, in a place that is written when this iteration
// has used it, or in two by turns (TileLoops.cpp).
//
// The branch's own products stand so that its barriers pass while tensor cores are busy.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/PipelineBranchOperands.h"
#include "lowering/Passes.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_PIPELINEBRANCHOPERANDS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// One stage for the item that is used, and one for the next.
static constexpr int64_t kStages = 2;

static bool isOnRing(Operation &op, Value ring) {
  return isa<AcquireOp, FillOp, TakeOp, ReleaseOp>(op) && op.getOperand(0) == ring;
}

namespace {
class Preparer {
public:
  explicit Preparer(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  bool run() {
    if (!find() || !findPrepared() || !findCarried())
      return false;
    orderProducts();
    prepareFirst();
    widenBranch();
    prepareNext(*branch.thenBlock());
    prepareNext(*branch.elseBlock());
    dropFromBody();
    return true;
  }

private:
  //===--------------------------------------------------------------------===//
  // What there is
  //===--------------------------------------------------------------------===//

  /// The loop's branch on a check, and the ring of two stages that the check looks at.
  bool find() {
    if (!matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()))
      return false;
    for (auto op : loop.getBody()->getOps<scf::IfOp>())
      if (op.elseBlock() && op.getCondition().getDefiningOp<WithinOp>()) {
        if (branch)
          return false;
        branch = op;
      }
    if (!branch)
      return false;
    SetVector<Operation *> makers;
    collectMakers(branch.getCondition().getDefiningOp(), makers);
    for (Operation *maker : makers)
      if (auto op = dyn_cast<TakeOp>(maker)) {
        if (take && take != op)
          return false;
        take = op;
      }
    if (!take || take.getHeld() || take.getItem() != loop.getInductionVar() ||
        take.getRing().getType().getStages() != kStages)
      return false;
    for (Operation *user : take.getRing().getUsers()) {
      if (user == take)
        continue;
      bool isInFront = user->getBlock() == loop->getBlock() && user->isBeforeInBlock(loop);
      if (!isInFront && user->getBlock() != loop.getBody())
        return false;
      if (auto op = dyn_cast<FillOp>(user); op && !isInFront) {
        if (fill || itemsAhead(loop.getInductionVar(), op.getItem()) != 1)
          return false;
        fill = op;
      }
    }
    return bool(fill);
  }

  /// `op` and what makes its operands, in the loop's body.
  void collectMakers(Operation *op, SetVector<Operation *> &makers) {
    if (!op || op->getBlock() != loop.getBody() || !makers.insert(op))
      return;
    for (Value operand : op->getOperands())
      collectMakers(operand.getDefiningOp(), makers);
  }

  /// What is made of the item in front of the branch, and of nothing that is not there an
  /// iteration earlier.
  bool findPrepared() {
    llvm::DenseSet<Value> ofItem(take->result_begin(), take->result_end());
    auto isOfItem = [&](Value value) { return ofItem.contains(value); };
    for (Operation &op : *loop.getBody()) {
      if (&op == branch)
        break;
      if (&op == take || llvm::none_of(op.getOperands(), isOfItem))
        continue;
      if (op.getNumRegions() || !isPure(&op))
        return false;
      ofItem.insert(op.result_begin(), op.result_end());
      prepared.push_back(&op);
    }
    for (Operation *op : prepared) {
      if (isProduct(op))
        collectMakers(op, sums);
      for (Value operand : op->getOperands())
        if (!isOfItem(operand) && !isHandedOn(operand) && !isKnownEarly(operand))
          return false;
    }
    // Sums are taken before the branch knows what it hands on.
    for (Operation *op : sums)
      if (llvm::any_of(op->getOperands(), [&](Value operand) { return isHandedOn(operand); }))
        return false;
    return llvm::all_of(fill->getOperands(), [&](Value operand) { return isKnownEarly(operand); });
  }

  /// Whether `value` follows from the counter.
  bool isKnownEarly(Value value) {
    if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
      return true;
    Operation *maker = value.getDefiningOp();
    return maker && isPure(maker) && !maker->getNumRegions() &&
           !isa<TileDialect>(maker->getDialect()) &&
           llvm::all_of(maker->getOperands(), [&](Value v) { return isKnownEarly(v); });
  }

  /// Whether `value` is what the branch of the iteration before has handed on.
  bool isHandedOn(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    return arg && arg.getOwner() == loop.getBody() && arg != loop.getInductionVar() &&
           loop.getYieldedValues()[arg.getArgNumber() - 1].getDefiningOp() == branch;
  }

  bool isPrepared(Operation *op) { return llvm::is_contained(prepared, op); }

  /// What others use of it.
  bool findCarried() {
    for (Value tile : take.getTiles())
      for (Operation *user : tile.getUsers())
        if (!isPrepared(user) && !branch.getElseRegion().isAncestor(user->getParentRegion()))
          return false;
    for (Operation *op : prepared)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !isPrepared(user); })) {
          bool isStored = isa<VectorType>(result.getType()) && isInShared(layoutOf(result));
          // It has no place of its own until then, and no other use.
          if (isStored && (!isa<ConvertOp, vector::ExtractOp>(op) || sums.contains(op) ||
                           isUsedIn(result, prepared)))
            return false;
          // Registers that a loop holds all through are missing in its products.
          if (isa<VectorType>(result.getType()) && isFragments(layoutOf(result)))
            return false;
          // Its place is the next one's by then.
          for (Operation *user : result.getUsers())
            if (isStored && !isPrepared(user) && !branch->isAncestor(user))
              return false;
          carried.push_back(result);
        }
    // The products that the branch ends with.
    for (Operation &op : *branch.thenBlock())
      if (isa<DotOp>(op)) {
        first = first ? first : &op;
        last = &op;
      }
    if (!last)
      return false;
    while (isa<DotOp>(first->getNextNode()) && first->getNextNode() != last)
      first = first->getNextNode();
    // First those of what is there already.
    for (auto dot : branch.thenBlock()->getOps<DotOp>())
      if (dot != last && dot != first && llvm::none_of(dot->getOperands(), [&](Value operand) {
            return branch.getThenRegion().isAncestor(operand.getParentRegion());
          }))
        ready.push_back(dot);
    // What takes the place of what the branch has of its own item is written behind the products.
    for (Value value : carried)
      for (Operation *user : value.getUsers()) {
        Operation *here = branch.thenBlock()->findAncestorOpInBlock(*user);
        if (!here || !last->isBeforeInBlock(here) || !isa<VectorType>(value.getType()) ||
            !isInShared(layoutOf(value)))
          continue;
        if (here != user || !isa<ConvertOp>(user))
          return false;
        late.insert(user);
      }
    // And so must be what it hands on to the check.
    for (BlockArgument arg : loop.getRegionIterArgs())
      if (isHandedOn(arg) && isUsedIn(arg, prepared))
        if (Operation *maker = ofSide(*branch.thenBlock(), arg).getDefiningOp();
            maker && maker->getBlock() == branch.thenBlock() && last->isBeforeInBlock(maker) &&
            !late.contains(maker))
          return false;
    return true;
  }

  static bool isUsedIn(Value value, ArrayRef<Operation *> ops) {
    return llvm::any_of(value.getUsers(),
                        [&](Operation *user) { return llvm::is_contained(ops, user); });
  }

  /// What `side` of the branch hands on as `arg` of the next iteration.
  Value ofSide(Block &side, BlockArgument arg) {
    auto next = cast<OpResult>(loop.getYieldedValues()[arg.getArgNumber() - 1]);
    return side.getTerminator()->getOperand(next.getResultNumber());
  }

  //===--------------------------------------------------------------------===//
  // The branch's own products
  //===--------------------------------------------------------------------===//

  /// First those of what is there already, and, while these are taken, what the others need of
  /// what the loop carries; then what becomes of them, in shared memory, so that others run while
  /// threads wait for one another.
  void orderProducts() {
    Block &block = *branch.thenBlock();
    for (Operation *dot : llvm::reverse(ready))
      dot->moveBefore(&block.front());
    for (Operation *convert : late)
      convert->moveBefore(last);
    if (ready.empty())
      return;
    Operation *next = ready.back()->getNextNode();
    while (!isa<DotOp>(next))
      next = next->getNextNode();
    // Vectors for that one are read from shared memory meanwhile.
    auto isThere = [&](Value value) { return value.getParentBlock() != &block; };
    for (auto spread : llvm::make_early_inc_range(block.getOps<SpreadOp>()))
      if (isThere(spread.getVector()) && spread->isBeforeInBlock(next))
        spread->moveBefore(&block.front());
    SetVector<Operation *> made;
    for (Operation &op : block) {
      auto isMade = [&](Value value) {
        Operation *maker = value.getDefiningOp();
        return maker && (made.contains(maker) || llvm::is_contained(ready, maker));
      };
      if (isPure(&op) && op.getNumRegions() == 0 && !isa<DotOp>(op) &&
          llvm::any_of(op.getOperands(), isMade) &&
          llvm::all_of(op.getOperands(), [&](Value v) { return isThere(v) || isMade(v); }))
        made.insert(&op);
    }
    storeInBranch(next);
    for (Operation *op : made)
      op->moveBefore(next);
  }

  /// What the loop stores of what it carries, in front of the branch, would have a barrier of its
  /// own there. It becomes each side's: on the first it is made before `next`, a product, and
  /// leaves before the last.
  void storeInBranch(Operation *next) {
    SmallVector<StoreOp> stores;
    for (auto store : loop.getBody()->getOps<StoreOp>())
      if (store->isBeforeInBlock(branch))
        stores.push_back(store);
    for (StoreOp store : stores) {
      SetVector<Operation *> makers;
      collectMakers(store, makers);
      if (llvm::any_of(makers, [&](Operation *op) {
            return op != store && (!isPure(op) || op->getNumRegions());
          }))
        continue;
      // Operands first.
      SmallVector<Operation *> ops;
      for (Operation &op : *loop.getBody())
        if (makers.contains(&op))
          ops.push_back(&op);
      Operation *start = &branch.elseBlock()->front();
      for (bool byProducts : {true, false}) {
        IRMapping known;
        for (Operation *op : ops) {
          b.setInsertionPoint(!byProducts ? start : op == store ? last : next);
          b.clone(*op, known);
        }
      }
      for (Operation *op : llvm::reverse(ops))
        if (op == store || isOpTriviallyDead(op))
          op->erase();
    }
  }

  //===--------------------------------------------------------------------===//
  // An iteration early
  //===--------------------------------------------------------------------===//

  /// `value` of the body as `known` has it, made again where it must be.
  Value copyOf(Value value, IRMapping &known) {
    if (Value copy = known.lookupOrNull(value))
      return copy;
    if (loop.isDefinedOutsideOfLoop(value))
      return value;
    Operation *maker = value.getDefiningOp();
    copy(maker, known);
    return known.lookup(value);
  }
  void copy(Operation *op, IRMapping &known) {
    for (Value operand : op->getOperands())
      known.map(operand, copyOf(operand, known));
    b.clone(*op, known);
  }

  /// Takes `item`.
  void takeItem(Value item, IRMapping &known) {
    known.map(loop.getInductionVar(), item);
    auto copy = cast<TakeOp>(b.clone(*take, known));
    copy.getItemMutable().assign(item);
  }

  /// Has the stage of item `item` filled for the one `ahead` of it.
  void fillItem(Value counter, int64_t ahead) {
    // As the body does for the item one ahead of its counter.
    Value before = addTo(counter, ahead - 1);
    IRMapping known;
    known.map(loop.getInductionVar(), before);
    known.map(fill.getItem(), addTo(counter, ahead));
    AcquireOp::create(b, loc, take.getRing(), known.lookup(fill.getItem()));
    copy(fill, known);
  }

  Value addTo(Value counter, int64_t number) {
    APInt known;
    if (matchPattern(counter, m_ConstantInt(&known)))
      return arith::ConstantIndexOp::create(b, loc, known.getSExtValue() + number);
    if (number == 0)
      return counter;
    Value more = arith::ConstantIndexOp::create(b, loc, number);
    return arith::AddIOp::create(b, loc, counter, more);
  }

  void prepareFirst() {
    b.setInsertionPoint(loop);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    fillItem(zero, 1);
    IRMapping known;
    for (auto [arg, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
      known.map(arg, init);
    takeItem(zero, known);
    for (Operation *op : prepared)
      copy(op, known);
    SmallVector<Value> inits =
        llvm::map_to_vector(carried, [&](Value value) { return known.lookup(value); });

    SmallVector<Attribute> layouts = layoutsOf(loop);
    IRRewriter rewriter(b);
    loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, inits, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return carried; }));
    loop->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
  }

  /// The layouts of what `op` gives, and of what is carried.
  SmallVector<Attribute> layoutsOf(Operation *op) {
    SmallVector<Attribute> layouts;
    auto add = [&](Value value) {
      LayoutAttr layout = isa<VectorType>(value.getType()) ? layoutOf(value) : LayoutAttr();
      layouts.push_back(layout ? Attribute(layout) : b.getUnitAttr());
    };
    for (Value result : op->getResults())
      add(result);
    for (Value value : carried)
      add(value);
    return layouts;
  }

  /// The branch with what is carried as results; by now the loop hands on what the body makes.
  void widenBranch() {
    b.setInsertionPoint(branch);
    SmallVector<Type> types(branch.getResultTypes());
    llvm::append_range(types, TypeRange(ValueRange(carried)));
    SmallVector<Attribute> layouts = layoutsOf(branch);
    ValueRange args = loop.getRegionIterArgs().take_back(carried.size());
    for (auto [value, arg] : llvm::zip(carried, args))
      value.replaceUsesWithIf(arg, [&](OpOperand &use) { return !isPrepared(use.getOwner()); });
    auto wider = scf::IfOp::create(b, branch.getLoc(), types, branch.getCondition(),
                                   /*withElseRegion=*/true);
    wider.getThenRegion().takeBody(branch.getThenRegion());
    wider.getElseRegion().takeBody(branch.getElseRegion());
    wider->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
    unsigned count = branch.getNumResults();
    branch.replaceAllUsesWith(wider.getResults().take_front(count));
    branch.erase();
    branch = wider;
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    unsigned from = yield.getNumOperands() - carried.size();
    for (unsigned i = 0; i < carried.size(); ++i)
      yield.setOperand(from + i, wider.getResult(count + i));
  }

  void prepareNext(Block &side) {
    bool byProducts = &side == branch.thenBlock();
    Value counter = loop.getInductionVar();
    auto handOn = [&] {
      ReleaseOp::create(b, loc, take.getRing(), counter);
      fillItem(counter, kStages);
    };
    IRMapping known;
    if (byProducts) {
      // Where the branch begins with a product, while that is taken: the warp that orders boxes
      // would keep the others waiting at their next barrier.
      Operation *product = ready.empty() ? first : ready.back();
      b.setInsertionPointAfter(product);
      handOn();
      if (product != first)
        b.setInsertionPointAfter(first);
    } else {
      b.setInsertionPointToStart(&side);
      auto held = cast<TakeOp>(b.clone(*take));
      held.setHeld(true);
      take->replaceUsesWithIf(held, [&](OpOperand &use) {
        return branch.getElseRegion().isAncestor(use.getOwner()->getParentRegion());
      });
      b.setInsertionPoint(side.getTerminator());
      handOn();
    }
    takeItem(addTo(counter, 1), known);
    for (BlockArgument arg : loop.getRegionIterArgs().drop_back(carried.size()))
      if (loop.getYieldedValues()[arg.getArgNumber() - 1].getDefiningOp() == branch)
        known.map(arg, ofSide(side, arg));
    // Sums early. Then one barrier, for products that read what factors take the place of and for
    // vectors that threads make for each other, and another for the check, behind which all is
    // stored.
    SmallVector<Operation *> early, rest, stores, exchanged, checks;
    llvm::DenseSet<Operation *> isExchanged;
    for (Operation *op : prepared) {
      auto convert = dyn_cast<ConvertOp>(op);
      auto isLate = [&](Value operand) { return isExchanged.contains(operand.getDefiningOp()); };
      if (sums.contains(op)) {
        early.push_back(op);
      } else if (isa<WithinOp>(op)) {
        checks.push_back(op);
      } else if (convert && isPanels(convert.getLayout()) && !isUsedIn(convert, prepared)) {
        stores.push_back(op);
      } else if ((convert && isPrepared(convert.getTile().getDefiningOp()) &&
                  isInShared(layoutOf(convert.getTile()))) ||
                 llvm::any_of(op->getOperands(), isLate)) {
        exchanged.push_back(op);
        isExchanged.insert(op);
      } else {
        rest.push_back(op);
      }
    }
    // Unless what is stored needs them.
    if (llvm::any_of(stores, [&](Operation *op) {
          return isExchanged.contains(op->getOperand(0).getDefiningOp());
        })) {
      llvm::append_range(rest, exchanged);
      exchanged.clear();
    }
    for (Operation *op : early)
      copy(op, known);
    if (byProducts && first != last)
      b.setInsertionPointAfter(last);
    for (ArrayRef<Operation *> ops : {ArrayRef(rest), ArrayRef(stores), ArrayRef(exchanged)})
      for (Operation *op : ops)
        copy(op, known);
    // What else is stored to shared memory is there behind the check's barrier, too.
    if (byProducts)
      for (Operation *op = &*b.getInsertionPoint(); op && !isa<StoreOp>(op); op = op->getNextNode())
        if (auto convert = dyn_cast<ConvertOp>(op); convert && isInShared(convert.getLayout()))
          b.setInsertionPointAfter(op);
    for (Operation *op : checks)
      copy(op, known);
    Operation *yield = side.getTerminator();
    SmallVector<Value> next =
        llvm::map_to_vector(carried, [&](Value value) { return known.lookup(value); });
    yield->insertOperands(yield->getNumOperands(), next);
  }

  void dropFromBody() {
    for (Operation *op : llvm::reverse(prepared))
      op->erase();
    Value ring = take.getRing();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*loop.getBody())))
      if (isOnRing(op, ring))
        op.erase();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*loop.getBody())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  scf::IfOp branch;
  TakeOp take;
  FillOp fill;
  SmallVector<Operation *> prepared;
  /// Of that, running sums and what makes them.
  SetVector<Operation *> sums;
  SmallVector<Value> carried;
  /// Products of the branch that all is there for, and what goes in front of its last one, for
  /// its place is written behind that.
  SmallVector<Operation *> ready;
  SetVector<Operation *> late;
  /// The last of the first products that stand together in the branch, and the last product.
  Operation *first = nullptr, *last = nullptr;
};

struct PipelineBranchOperandsPass : ejk::impl::PipelineBranchOperandsBase<PipelineBranchOperandsPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) { numPrepared += pipelineBranchOperands(program); });
  }
};
} // namespace

unsigned ejk::pipelineBranchOperands(ProgramOp program) {
  unsigned count = 0;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>()))
    count += Preparer(loop).run();
  return count;
}
