//===- PipelineBranchOperands.cpp - operands one iteration early -----------===//
//
// Software-pipelines a loop whose body is a prologue and a branch with a range guard. The prologue
// computes matmul operands, the guard and vectors from the iteration's rows. It keeps threads busy
// while tensor cores idle; the branch's matmuls do the reverse. So this pass computes the next
// iteration's prologue inside the branch: cumsums, which are matmuls, before the branch's last
// matmuls, and the rest after them. The loop carries the results in registers or in shared memory,
// in one buffer that is overwritten after its last use, or in a double buffer (TileLoops.cpp).
//
// The branch's own matmuls are reordered, so that barriers overlap with running matmuls.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/PipelineBranchOperands.h"
#include "lowering/Passes.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/BranchMatmuls.h"
#include "lowering/pipeline/MultistageLoads.h"
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

/// One stage for the current item, and one for the next.
static constexpr int64_t kBranchStages = 2;

static bool isOnRing(Operation &op, Value ring) {
  return isa<AcquireOp, FillOp, TakeOp, ReleaseOp>(op) && op.getOperand(0) == ring;
}

namespace {
class BranchPipeliner {
public:
  explicit BranchPipeliner(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  bool run() {
    if (!find() || !findPrepared() || !findCarried())
      return false;
    orderMatmuls(loop, branch, matmuls);
    prepareFirst();
    widenBranch();
    prepareNext(*branch.getFastBlock());
    prepareNext(*branch.getExactBlock());
    dropFromBody();
    return true;
  }

private:
  //===--------------------------------------------------------------------===//
  // Analysis
  //===--------------------------------------------------------------------===//

  /// Finds the loop's branch on a range guard, and the ring of two stages whose rows the guard
  /// depends on.
  bool find() {
    if (!matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()))
      return false;
    for (auto op : loop.getBody()->getOps<GuardedOp>())
      if (op.getGuard().getDefiningOp<RangeGuardOp>()) {
        if (branch)
          return false;
        branch = op;
      }
    // Where a system is inverted, registers are left for no other branch's operands.
    if (!branch || !branch.getFastBlock()->getOps<InvertDiagonalOp>().empty())
      return false;
    SetVector<Operation *> makers;
    collectMakers(loop, branch.getGuard().getDefiningOp(), makers);
    for (Operation *maker : makers)
      if (auto op = dyn_cast<TakeOp>(maker)) {
        if (take && take != op)
          return false;
        take = op;
      }
    if (!take || take.getHeld() || take.getItem() != loop.getInductionVar() ||
        take.getRing().getType().getStages() != kBranchStages)
      return false;
    for (Operation *user : take.getRing().getUsers()) {
      if (user == take)
        continue;
      bool isBeforeLoop = user->getBlock() == loop->getBlock() && user->isBeforeInBlock(loop);
      if (!isBeforeLoop && user->getBlock() != loop.getBody())
        return false;
      if (auto op = dyn_cast<FillOp>(user); op && !isBeforeLoop) {
        if (fill || itemsAhead(loop.getInductionVar(), op.getItem()) != 1)
          return false;
        fill = op;
      }
    }
    return bool(fill);
  }

  /// Finds the prologue: ops before the branch that depend on the item. Their other operands must
  /// be available an iteration earlier.
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
      if (runsOnTensorCores(op))
        collectMakers(loop, op, cumsums);
      for (Value operand : op->getOperands())
        if (!isOfItem(operand) && !isYieldedByBranch(operand) && !isKnownEarly(operand))
          return false;
    }
    // Cumsums run before the branch yields, so they may not depend on what it yields.
    for (Operation *op : cumsums)
      if (llvm::any_of(op->getOperands(),
                       [&](Value operand) { return isYieldedByBranch(operand); }))
        return false;
    return llvm::all_of(fill->getOperands(), [&](Value operand) { return isKnownEarly(operand); });
  }

  /// Whether `value` depends on the counter and on values from before the loop only.
  bool isKnownEarly(Value value) {
    if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
      return true;
    Operation *maker = value.getDefiningOp();
    return maker && isPure(maker) && !maker->getNumRegions() &&
           !isa<TileDialect>(maker->getDialect()) &&
           llvm::all_of(maker->getOperands(), [&](Value v) { return isKnownEarly(v); });
  }

  /// Whether `value` is a result of the previous iteration's branch.
  bool isYieldedByBranch(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    return arg && arg.getOwner() == loop.getBody() && arg != loop.getInductionVar() &&
           loop.getYieldedValues()[arg.getArgNumber() - 1].getDefiningOp() == branch;
  }

  bool isPrepared(Operation *op) { return llvm::is_contained(prepared, op); }

  /// Finds the prologue's results that the loop must carry, and the branch's matmuls to place code
  /// between.
  bool findCarried() {
    for (Value tile : take.getTiles())
      for (Operation *user : tile.getUsers())
        if (!isPrepared(user) && !branch.getExact().isAncestor(user->getParentRegion()))
          return false;
    for (Operation *op : prepared)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !isPrepared(user); })) {
          bool isStored = isa<VectorType>(result.getType()) && isInShared(layoutOf(result));
          // A tile in shared memory is written to its carried buffer, so it may have no other use
          // before.
          if (isStored && (!isa<ConvertOp, vector::ExtractOp>(op) || cumsums.contains(op) ||
                           isUsedIn(result, prepared)))
            return false;
          // Fragments carried through the loop would take registers from its matmuls.
          if (isa<VectorType>(result.getType()) && isFragments(layoutOf(result)))
            return false;
          // After the branch, the buffer belongs to the next iteration.
          for (Operation *user : result.getUsers())
            if (isStored && !isPrepared(user) && !branch->isAncestor(user))
              return false;
          carried.push_back(result);
        }
    // The first group of matmuls in the branch, and its last matmul.
    for (Operation &op : *branch.getFastBlock())
      if (isa<DotOp>(op)) {
        matmuls.first = matmuls.first ? matmuls.first : &op;
        matmuls.last = &op;
      }
    if (!matmuls.last)
      return false;
    while (isa<DotOp>(matmuls.first->getNextNode()) && matmuls.first->getNextNode() != matmuls.last)
      matmuls.first = matmuls.first->getNextNode();
    // Matmuls whose operands are available before the branch.
    for (auto dot : branch.getFastBlock()->getOps<DotOp>())
      if (dot != matmuls.last && dot != matmuls.first &&
          llvm::none_of(dot->getOperands(), [&](Value operand) {
            return branch.getFast().isAncestor(operand.getParentRegion());
          }))
        matmuls.ready.push_back(dot);
    // Stores after the last matmul that read a carried buffer must move before it, because the
    // buffer is overwritten after the last matmul.
    for (Value value : carried)
      for (Operation *user : value.getUsers()) {
        Operation *here = branch.getFastBlock()->findAncestorOpInBlock(*user);
        if (!here || !matmuls.last->isBeforeInBlock(here) || !isa<VectorType>(value.getType()) ||
            !isInShared(layoutOf(value)))
          continue;
        if (here != user || !isa<ConvertOp>(user))
          return false;
        matmuls.late.insert(user);
      }
    // What the branch yields for the next guard must be computed before the last matmul, too.
    for (BlockArgument arg : loop.getRegionIterArgs())
      if (isYieldedByBranch(arg) && isUsedIn(arg, prepared))
        if (Operation *maker = ofSide(*branch.getFastBlock(), arg).getDefiningOp();
            maker && maker->getBlock() == branch.getFastBlock() &&
            matmuls.last->isBeforeInBlock(maker) && !matmuls.late.contains(maker))
          return false;
    return true;
  }

  static bool isUsedIn(Value value, ArrayRef<Operation *> ops) {
    return llvm::any_of(value.getUsers(),
                        [&](Operation *user) { return llvm::is_contained(ops, user); });
  }

  /// The value that branch `side` yields as `arg` of the next iteration.
  Value ofSide(Block &side, BlockArgument arg) {
    auto next = cast<OpResult>(loop.getYieldedValues()[arg.getArgNumber() - 1]);
    return side.getTerminator()->getOperand(next.getResultNumber());
  }

  //===--------------------------------------------------------------------===//
  // The next item in this iteration
  //===--------------------------------------------------------------------===//

  /// The copy of `value` in `known`; clones its computation if there is none.
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

  /// Emits the take of `item`.
  void takeItem(Value item, IRMapping &known) {
    known.map(loop.getInductionVar(), item);
    auto copy = cast<TakeOp>(b.clone(*take, known));
    copy.getItemMutable().assign(item);
  }

  /// Emits the fill of the item `ahead` of `counter`.
  void fillItem(Value counter, int64_t ahead) {
    // The body fills the item one ahead of its counter.
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

  /// The layouts of `op`'s results, followed by those of the carried values.
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

  /// Adds the carried values to the branch's results, and makes the loop yield them.
  void widenBranch() {
    SmallVector<Attribute> layouts = layoutsOf(branch);
    ValueRange args = loop.getRegionIterArgs().take_back(carried.size());
    for (auto [value, arg] : llvm::zip(carried, args))
      value.replaceUsesWithIf(arg, [&](OpOperand &use) { return !isPrepared(use.getOwner()); });
    unsigned count = branch.getNumResults();
    branch = branch.addResults(b, TypeRange(ValueRange(carried)));
    branch->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    unsigned from = yield.getNumOperands() - carried.size();
    for (unsigned i = 0; i < carried.size(); ++i)
      yield.setOperand(from + i, branch.getResult(count + i));
  }

  void prepareNext(Block &side) {
    bool isFastPath = &side == branch.getFastBlock();
    Value counter = loop.getInductionVar();
    auto releaseAndFill = [&] {
      ReleaseOp::create(b, loc, take.getRing(), counter);
      fillItem(counter, kBranchStages);
    };
    IRMapping known;
    if (isFastPath) {
      // Issue copies while the branch's first matmul runs. Otherwise the warp that issues TMA loads
      // would delay the other warps at their next barrier.
      Operation *matmul = matmuls.ready.empty() ? matmuls.first : matmuls.ready.back();
      b.setInsertionPointAfter(matmul);
      releaseAndFill();
      if (matmul != matmuls.first)
        b.setInsertionPointAfter(matmuls.first);
    } else {
      b.setInsertionPointToStart(&side);
      auto held = cast<TakeOp>(b.clone(*take));
      held.setHeld(true);
      take->replaceUsesWithIf(held, [&](OpOperand &use) {
        return branch.getExact().isAncestor(use.getOwner()->getParentRegion());
      });
      b.setInsertionPoint(side.getTerminator());
      releaseAndFill();
    }
    takeItem(addTo(counter, 1), known);
    for (BlockArgument arg : loop.getRegionIterArgs().drop_back(carried.size()))
      if (loop.getYieldedValues()[arg.getArgNumber() - 1].getDefiningOp() == branch)
        known.map(arg, ofSide(side, arg));
    // Cumsums come first. Then two barriers suffice: one for matmuls that read buffers about to be
    // overwritten and for vectors that warps exchange, and the guard's, which also orders all
    // stores.
    SmallVector<Operation *> early, rest, stores, exchanged, checks;
    llvm::DenseSet<Operation *> isExchanged;
    for (Operation *op : prepared) {
      auto convert = dyn_cast<ConvertOp>(op);
      auto isLate = [&](Value operand) { return isExchanged.contains(operand.getDefiningOp()); };
      if (cumsums.contains(op)) {
        early.push_back(op);
      } else if (isa<RangeGuardOp>(op)) {
        checks.push_back(op);
      } else if (convert && isSwizzled(convert.getLayout()) && !isUsedIn(convert, prepared)) {
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
    // Exchanged vectors that stores depend on cannot wait.
    if (llvm::any_of(stores, [&](Operation *op) {
          return isExchanged.contains(op->getOperand(0).getDefiningOp());
        })) {
      llvm::append_range(rest, exchanged);
      exchanged.clear();
    }
    for (Operation *op : early)
      copy(op, known);
    if (isFastPath && matmuls.first != matmuls.last)
      b.setInsertionPointAfter(matmuls.last);
    for (ArrayRef<Operation *> ops : {ArrayRef(rest), ArrayRef(stores), ArrayRef(exchanged)})
      for (Operation *op : ops)
        copy(op, known);
    // The guard's barrier also covers later stores to shared memory in the branch.
    if (isFastPath)
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
  GuardedOp branch;
  TakeOp take;
  FillOp fill;
  SmallVector<Operation *> prepared;
  /// The cumsums in `prepared` and the ops that they depend on.
  SetVector<Operation *> cumsums;
  SmallVector<Value> carried;
  BranchMatmuls matmuls;
};

struct PipelineBranchOperandsPass
    : ejk::impl::PipelineBranchOperandsBase<PipelineBranchOperandsPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk(
        [&](ProgramOp program) { numPrepared += pipelineBranchOperands(program); });
  }
};
} // namespace

unsigned ejk::pipelineBranchOperands(ProgramOp program) {
  unsigned count = 0;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>()))
    count += BranchPipeliner(loop).run();
  return count;
}
