//===- OrderByDemand.cpp - an order of few live tiles ----------------------===//
#include "lowering/pipeline/OrderByDemand.h"
#include "dialect/tile/Branch.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/target/CostModel.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

namespace {
/// Orders one block. Ops that can wait (LiveRanges.h) go where their users go, so a user is taken to
/// use what they are made of.
class DemandOrder {
public:
  explicit DemandOrder(Block &block) : block(block) {
    for (Operation &op : block.without_terminator())
      if (!canWait(&op)) {
        number[&op] = ops.size();
        ops.push_back(&op);
      }
    findInputs();
    findOrder();
  }

  void run() {
    for (Operation *op : ops)
      if (isDemanded(op))
        issueWithMakers(op);
    for (Operation *op : ops) // what the terminator needs, and what nothing does
      issueWithMakers(op);
    llvm::DenseSet<Operation *> placed;
    for (Operation *op : order)
      place(op, placed);
    for (Operation *op : opsOf(block))
      if (!placed.contains(op))
        place(op, placed);
    sinkToUses(block);
  }

private:
  /// Calls `visit` with each value from outside `op` that it or an op in its regions uses.
  static void forEachUse(Operation *op, llvm::function_ref<void(Value)> visit) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
          visit(operand);
    });
  }

  Operation *waitingMaker(Value value) const {
    Operation *maker = value.getDefiningOp();
    return maker && maker->getBlock() == &block && canWait(maker) ? maker : nullptr;
  }

  void addInputs(Operation *op, llvm::SetVector<Value> &inputs) {
    forEachUse(op, [&](Value value) {
      if (Operation *maker = waitingMaker(value))
        addInputs(maker, inputs);
      else
        inputs.insert(value);
    });
  }

  void findInputs() {
    for (Operation *op : ops)
      addInputs(op, inputs[op]);
    addInputs(block.getTerminator(), inputs[block.getTerminator()]);
    for (auto &[op, values] : inputs)
      for (Value value : values)
        ++usesLeft[value];
  }

  Operation *makerOf(Value value) const {
    Operation *maker = value.getDefiningOp();
    return maker && number.contains(maker) ? maker : nullptr;
  }

  /// Besides what operands say: stores to one tensor stay in order, ops with regions stay between
  /// the ops around them, and what else uses an accumulator precedes the matmul that adds to it.
  void findOrder() {
    llvm::DenseMap<Value, Operation *> lastStore;
    Operation *lastRegion = nullptr;
    for (auto [i, op] : llvm::enumerate(ops)) {
      auto &before = needs[op];
      for (Value input : inputs[op])
        if (Operation *maker = makerOf(input))
          before.insert(maker);
      if (lastRegion)
        before.insert(lastRegion);
      if (op->getNumRegions()) {
        before.insert(ops.begin(), ops.begin() + i);
        lastRegion = op;
      }
      if (isa<StoreOp, StoreSlotOp>(op)) {
        Operation *&last = lastStore[op->getOperand(1)];
        if (last)
          before.insert(last);
        last = op;
      }
    }
    for (Operation *op : ops)
      if (auto dot = dyn_cast<DotOp>(op); dot && registersOf(dot.getAcc()))
        for (Operation *user : ops)
          if (user != op && !isa<DotOp>(user) && inputs[user].contains(dot.getAcc()) &&
              !dependsOn(user, op))
            needs[op].insert(user);
  }

  bool dependsOn(Operation *op, Operation *other) {
    llvm::SetVector<Operation *> before;
    before.insert(op);
    for (unsigned i = 0; i < before.size(); ++i) {
      if (before[i] == other)
        return true;
      auto &more = needs[before[i]];
      before.insert(more.begin(), more.end());
    }
    return false;
  }

  static bool isDemanded(Operation *op) { return op->getNumRegions() || !isPure(op); }

  void issueWithMakers(Operation *op) {
    if (issued.contains(op))
      return;
    llvm::SetVector<Operation *> wanted;
    wanted.insert(op);
    for (unsigned i = 0; i < wanted.size(); ++i)
      for (Operation *maker : needs[wanted[i]])
        if (!issued.contains(maker))
          wanted.insert(maker);
    SmallVector<Operation *> inOrder = wanted.takeVector();
    // An accumulator's other users may come later in the program than the matmul.
    llvm::sort(inOrder, [&](Operation *a, Operation *b) { return number[a] < number[b]; });
    while (!inOrder.empty()) {
      auto *next = llvm::find_if(inOrder, [&](Operation *each) { return isReady(each); });
      Operation *chosen = *next;
      inOrder.erase(next);
      if (issued.contains(chosen))
        continue;
      issue(chosen);
    }
  }

  bool isReady(Operation *op) {
    return llvm::all_of(needs[op], [&](Operation *maker) { return issued.contains(maker); });
  }

  /// The registers that are live after `op`, less those before it.
  int64_t growth(Operation *op) {
    int64_t registers = 0;
    for (Value result : op->getResults())
      if (usesLeft.lookup(result))
        registers += registersOf(result);
    for (Value input : inputs[op])
      if (usesLeft.lookup(input) == 1)
        registers -= registersOf(input);
    return registers;
  }

  /// Whether `op` may run before it is demanded. A tile that is stored to shared memory takes room
  /// there.
  bool isFree(Operation *op) {
    int64_t registers = growth(op);
    bool isStored = isa<ConvertOp>(op) && isInShared(ejk::layoutOf(op->getResult(0)));
    return registers < 0 || (registers == 0 && isPure(op) && !isStored && !isa<DotOp>(op));
  }

  void issue(Operation *op) {
    issued.insert(op);
    order.push_back(op);
    for (Value input : inputs[op])
      --usesLeft[input];
    for (Operation *other : ops)
      if (!issued.contains(other) && !other->getNumRegions() && isReady(other) && isFree(other))
        return issue(other); // after which all others are looked at again
  }

  /// Moves `op` to the end of the block, with the ops before it that can wait.
  void place(Operation *op, llvm::DenseSet<Operation *> &placed) {
    if (!placed.insert(op).second)
      return;
    forEachUse(op, [&](Value value) {
      if (Operation *maker = waitingMaker(value))
        place(maker, placed);
    });
    op->moveBefore(block.getTerminator());
  }

  Block &block;
  SmallVector<Operation *> ops, order;
  llvm::DenseMap<Operation *, unsigned> number;
  llvm::DenseMap<Operation *, llvm::SetVector<Value>> inputs;
  llvm::DenseMap<Operation *, llvm::SetVector<Operation *>> needs;
  llvm::DenseMap<Value, unsigned> usesLeft;
  llvm::DenseSet<Operation *> issued;
};
} // namespace

//===----------------------------------------------------------------------===//
// A program
//===----------------------------------------------------------------------===//

/// Whether `user` is where it is worth reloading what `store` stored: in a branch, or after a
/// matmul.
static bool isFar(Operation *store, Operation *user) {
  Block &block = *store->getBlock();
  Operation *here = block.findAncestorOpInBlock(*user);
  if (!here || !store->isBeforeInBlock(here))
    return false;
  if (here != user)
    return Branch::is(here);
  for (Operation *op = store; op != here; op = op->getNextNode())
    if (isa<DotOp>(op) || op->getNumRegions())
      return true;
  return false;
}

/// Reloads tiles that lie in shared memory for a matmul.
static void reloadStoredTiles(ProgramOp program) {
  SmallVector<ConvertOp> stores;
  program.walk([&](ConvertOp store) {
    if (isInShared(store.getLayout()) && isFragments(layoutOf(store.getTile())) &&
        llvm::any_of(store->getUsers(), [](Operation *user) { return isa<DotOp>(user); }))
      stores.push_back(store);
  });
  for (ConvertOp store : stores)
    for (OpOperand &use : llvm::make_early_inc_range(store.getTile().getUses()))
      if (Operation *user = use.getOwner(); !isa<DotOp, ConvertOp>(user) && isFar(store, user)) {
        OpBuilder b(user);
        use.set(ConvertOp::create(b, user->getLoc(), store.getType(), store.getResult(),
                                  layoutOf(store.getTile())));
      }
}

bool ejk::orderByDemand(ProgramOp program) {
  if (int64_t(program.getChunk()) <= cost::kChunkLengths[std::size(cost::kChunkLengths) - 1] ||
      fitsRegisters(program, registersOfLiveTiles(program)))
    return false;
  sinkLoadsIntoBranches(program);
  reloadStoredTiles(program);
  SmallVector<Block *> blocks;
  program.walk([&](DotOp dot) {
    if (!llvm::is_contained(blocks, dot->getBlock()))
      blocks.push_back(dot->getBlock());
    if (Block *outer = dot->getBlock()->getParentOp()->getBlock();
        Branch::is(dot->getBlock()->getParentOp()) && !llvm::is_contained(blocks, outer))
      blocks.push_back(outer);
  });
  for (Block *block : blocks)
    DemandOrder(*block).run();
  return true;
}
