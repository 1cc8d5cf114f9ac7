//===- LiveRanges.cpp - shorter live ranges of tiles -----------------------===//
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "dialect/tile/Branch.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

SmallVector<Operation *> ejk::opsOf(Block &block) {
  return llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
}

bool ejk::canWait(Operation *op) {
  if (op->getNumResults() != 1 || !isFragments(ejk::layoutOf(op->getResult(0))))
    return false;
  if (isa<BroadcastOp, arith::ExtFOp>(op))
    return true;
  if (auto convert = dyn_cast<ConvertOp>(op))
    return isInShared(ejk::layoutOf(convert.getTile()));
  if (!OpTrait::hasElementwiseMappableTraits(op) || !op->hasOneUse())
    return false;
  // An elementwise op on ops that can wait can wait, too.
  return isa<tile::SumOp>(*op->user_begin()) || llvm::all_of(op->getOperands(), [](Value operand) {
           Operation *maker = operand.getDefiningOp();
           return maker && (canWait(maker) || maker->hasTrait<OpTrait::ConstantLike>());
         });
}

int64_t ejk::registersOf(Value value) {
  LayoutAttr layout = isa<VectorType>(value.getType()) ? ejk::layoutOf(value) : LayoutAttr();
  if (!isFragments(layout) || (value.getDefiningOp() && canWait(value.getDefiningOp())))
    return 0;
  return Fragments::of(value.getType(), layout).size() *
         getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() / 32;
}

/// Whether `op` stores fragments to shared memory as a matmul operand.
static bool storesMatmulOperand(Operation *op) {
  auto store = dyn_cast<ConvertOp>(op);
  return store && isSwizzled(store.getLayout()) && isFragments(layoutOf(store.getTile()));
}

/// Makes `use` reload the tile that `store` stored.
static void reloadFrom(ConvertOp store, OpOperand &use) {
  OpBuilder b(use.getOwner());
  use.set(ConvertOp::create(b, use.getOwner()->getLoc(), store.getType(), store.getResult(),
                            layoutOf(store.getTile())));
}

void ejk::shortenTileRanges(ProgramOp program) {
  SmallVector<vector::ExtractOp> rows;
  SmallVector<ConvertOp> stores;
  program.walk([&](Operation *op) {
    if (auto row = dyn_cast<vector::ExtractOp>(op); row && isFragments(layoutOf(row.getSource())) &&
                                                    !row.hasDynamicPosition() &&
                                                    row.getSource().getDefiningOp())
      rows.push_back(row);
    if (storesMatmulOperand(op))
      stores.push_back(cast<ConvertOp>(op));
  });
  for (vector::ExtractOp row : rows)
    row->moveAfter(row.getSource().getDefiningOp());
  for (ConvertOp store : stores)
    for (OpOperand &use : llvm::make_early_inc_range(store.getTile().getUses()))
      if (Operation *user = use.getOwner();
          user->getBlock() != store->getBlock() && Branch::is(user->getParentOp()) &&
          user->getParentOp()->getBlock() == store->getBlock() && !isa<DotOp, ConvertOp>(user))
        reloadFrom(store, use);
}

void ejk::sinkLoadsIntoBranches(ProgramOp program) {
  SmallVector<Operation *> ops;
  program.walk([&](Operation *op) {
    if (isa<ConvertOp, arith::ExtFOp>(op) && canWait(op))
      ops.push_back(op);
  });
  for (Operation *op : llvm::reverse(ops)) {
    llvm::MapVector<Block *, SmallVector<OpOperand *>> inside;
    for (OpOperand &use : op->getUses())
      if (Block *block = use.getOwner()->getBlock();
          block != op->getBlock() && Branch::is(block->getParentOp()))
        inside[block].push_back(&use);
    for (auto &[block, uses] : inside) {
      Operation *first = uses.front()->getOwner();
      for (OpOperand *use : uses)
        if (use->getOwner()->isBeforeInBlock(first))
          first = use->getOwner();
      Operation *made = OpBuilder(first).clone(*op);
      for (OpOperand *use : uses)
        use->set(made->getResult(0));
    }
    if (op->use_empty())
      op->erase();
  }
}

void ejk::hoistUsesOfInits(scf::ForOp loop) {
  Block &block = *loop->getBlock();
  llvm::SetVector<Operation *> early;
  llvm::DenseSet<Operation *> late = {loop};
  auto makerAfter = [&](Value value) -> Operation * {
    Operation *maker = value.getDefiningOp();
    return maker && maker->getBlock() == &block && loop->isBeforeInBlock(maker) ? maker : nullptr;
  };
  for (Operation *op = loop->getNextNode(); op != block.getTerminator(); op = op->getNextNode()) {
    auto any = [&](llvm::function_ref<bool(Value)> is) {
      return llvm::any_of(op->getOperands(), is);
    };
    if (!(isPure(op) || isa<StoreOp>(op)) || op->getNumRegions() ||
        any([&](Value operand) { return late.contains(operand.getDefiningOp()); })) {
      late.insert(op);
    } else if (any([&](Value operand) {
                 bool isOfLoop = isa_and_nonnull<scf::ForOp>(operand.getDefiningOp());
                 LayoutAttr layout = layoutOf(operand);
                 return (isFragments(layout) &&
                         (isOfLoop || llvm::is_contained(loop.getInitArgs(), operand))) ||
                        (isInShared(layout) && isOfLoop) || early.contains(operand.getDefiningOp());
               })) {
      early.insert(op);
    }
  }
  // Include the ops that they depend on.
  llvm::SetVector<Operation *> all;
  SmallVector<Operation *> left(early.begin(), early.end());
  while (!left.empty()) {
    Operation *op = left.pop_back_val();
    if (!all.insert(op))
      continue;
    for (Value operand : op->getOperands())
      if (Operation *maker = makerAfter(operand))
        left.push_back(maker);
  }
  SmallVector<Operation *> inOrder = all.takeVector();
  Operation *place = loop;
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  // In reverse order, because a rematerialised widening needs its load, too.
  for (Operation *op : llvm::reverse(inOrder)) {
    if (canWait(op) && llvm::none_of(op->getUsers(), [&](Operation *user) {
          return llvm::is_contained(inOrder, block.findAncestorOpInBlock(*user));
        }))
      continue;
    // Loads and widenings are rematerialised after the loop.
    if (canWait(op) && llvm::any_of(op->getUsers(), [&](Operation *user) {
          return !llvm::is_contained(inOrder, block.findAncestorOpInBlock(*user));
        })) {
      Operation *again = OpBuilder(op).clone(*op);
      op->replaceUsesWithIf(again, [&](OpOperand &use) {
        return !llvm::is_contained(inOrder, block.findAncestorOpInBlock(*use.getOwner()));
      });
    }
    op->moveBefore(place);
    place = op;
  }
  // Allocate the loop's buffers in shared memory last.
  for (Value init : loop.getInitArgs())
    if (auto start = init.getDefiningOp<ConvertOp>();
        start && isInShared(start.getLayout()) && start->getBlock() == &block)
      start->moveBefore(loop);
}

/// Whether a matmul or a region stands between the two ops.
static bool isAfterMatmul(Operation *from, Operation *to) {
  if (!from->isBeforeInBlock(to))
    return false;
  for (Operation *op = from; op != to; op = op->getNextNode())
    if (isa<DotOp>(op) || op->getNumRegions())
      return true;
  return false;
}

namespace {
/// An op, with the loads and elementwise ops that only it uses and that can wait for it.
class MovableOp {
public:
  explicit MovableOp(Operation *op) : op(op), block(*op->getBlock()) { addWithOperands(op); }

  /// Moves it up, past matmuls, if live ranges that then end have more registers than its result.
  /// Returns whether it moved.
  bool endRanges() {
    Operation *place = nullptr; // the op that it must follow
    auto follows = [&](Operation *other) {
      if (other && other->getBlock() == &block && (!place || place->isBeforeInBlock(other)))
        place = other;
    };
    int64_t gain = 0;
    for (Value result : op->getResults())
      gain -= registersOf(result);
    for (Value input : inputs) {
      follows(input.getDefiningOp());
      if (registersOf(input) == 0)
        continue;
      SmallVector<Operation *> before;
      bool endsHere = true;
      for (Operation *user : input.getUsers()) {
        Operation *here = block.findAncestorOpInBlock(*user);
        if (here && here != block.getTerminator() && here->isBeforeInBlock(op))
          before.push_back(here);
        else
          endsHere &= here == op;
      }
      if (!endsHere)
        continue;
      gain += registersOf(input);
      for (Operation *other : before)
        if (!members.contains(other))
          follows(other);
    }
    if (gain <= 0 || !place || !isAfterMatmul(place->getNextNode(), op) || passesStore(place))
      return false;
    SmallVector<Operation *> inOrder(members.begin(), members.end());
    llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *member : inOrder)
      if (place->isBeforeInBlock(member)) {
        member->moveAfter(place);
        place = member;
      }
    return true;
  }

  /// An op whose result lies in shared memory stays: its range there would be live for longer.
  static bool mayMove(Operation *op) {
    if (isa<StoreOp>(op))
      return true;
    return isPure(op) && op->getNumRegions() == 0 && op->getNumResults() == 1 &&
           !isa<DotOp>(op) && !canWait(op) && !isInShared(ejk::layoutOf(op->getResult(0)));
  }

private:
  void addWithOperands(Operation *member) {
    members.insert(member);
    for (Value operand : member->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (maker && maker->getBlock() == &block && canWait(maker) && maker->hasOneUse())
        addWithOperands(maker);
      else
        inputs.insert(operand);
    }
  }

  /// Whether it is a store that would move past another store to the same rows, or past an op with
  /// regions.
  bool passesStore(Operation *place) {
    if (!isa<StoreOp>(op))
      return false;
    for (Operation *other = place->getNextNode(); other != op; other = other->getNextNode())
      if (other->getNumRegions() ||
          (isa<StoreOp>(other) && other->getOperand(1) == op->getOperand(1)))
        return true;
    return false;
  }

  Operation *op;
  Block &block;
  llvm::SetVector<Operation *> members;
  llvm::SetVector<Value> inputs;
};
} // namespace

void ejk::endRangesEarly(Block &block) {
  for (Operation *op : opsOf(block))
    if (MovableOp::mayMove(op))
      MovableOp(op).endRanges();
}

/// Whether `op` computes a vector from vectors and scalars.
static bool isOfVectors(Operation *op) {
  auto isSmall = [](Value value) {
    auto type = dyn_cast<VectorType>(value.getType());
    return !type || type.getRank() < 2;
  };
  return isPure(op) && op->getNumRegions() == 0 && op->getNumResults() == 1 &&
         !isa<ConvertOp>(op) && isa<VectorType>(op->getResult(0).getType()) &&
         isSmall(op->getResult(0)) && llvm::all_of(op->getOperands(), isSmall);
}

void ejk::sinkToUses(Block &block) {
  SmallVector<Operation *> ops = opsOf(block);
  bool isShort = Branch::is(block.getParentOp()) && usesWarpMatmuls(block);
  for (Operation *op : llvm::reverse(ops)) {
    if (!canWait(op) && !(isShort && isOfVectors(op)))
      continue;
    SmallVector<std::pair<Operation *, OpOperand *>> uses;
    for (OpOperand &use : op->getUses())
      if (Operation *here = block.findAncestorOpInBlock(*use.getOwner()))
        uses.push_back({here, &use});
    if (uses.empty())
      continue;
    llvm::stable_sort(uses, [](auto &a, auto &b) {
      return a.first != b.first && a.first->isBeforeInBlock(b.first);
    });
    Operation *first = uses.front().first, *made = op;
    if (first != op->getNextNode())
      op->moveBefore(first);
    for (auto [here, use] : uses) {
      if (isa<ConvertOp, arith::ExtFOp>(op) && isAfterMatmul(made, here))
        made = OpBuilder(here).clone(*op);
      use->set(made->getResult(0));
    }
  }
}

void ejk::reloadOperands(Block &block) {
  for (Operation *op : opsOf(block)) {
    if (!storesMatmulOperand(op))
      continue;
    auto store = cast<ConvertOp>(op);
    for (OpOperand &use : llvm::make_early_inc_range(store.getTile().getUses())) {
      Operation *user = use.getOwner();
      if (user->getBlock() != &block || isa<DotOp, ConvertOp>(user) || !isAfterMatmul(store, user))
        continue;
      reloadFrom(store, use);
    }
  }
}

void ejk::rematerialise(Block &block) {
  for (Operation *op : opsOf(block)) {
    if (op->getNumResults() != 1 || op->hasOneUse() || registersOf(op->getResult(0)) == 0 ||
        !OpTrait::hasElementwiseMappableTraits(op))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      uses.push_back(&use);
    if (llvm::any_of(uses, [&](OpOperand *use) { return use->getOwner()->getBlock() != &block; }))
      continue;
    llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() != b->getOwner() && a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    // Operands that can wait cost nothing. A loop-carried operand with a later use is live anyway.
    auto isThere = [&](Value operand) {
      if (Operation *maker = operand.getDefiningOp())
        return canWait(maker) || maker->hasTrait<OpTrait::ConstantLike>();
      return llvm::any_of(operand.getUsers(), [&](Operation *user) {
        Operation *here = block.findAncestorOpInBlock(*user);
        return here && uses.back()->getOwner()->isBeforeInBlock(here);
      });
    };
    if (uses.size() < 2 || !llvm::all_of(op->getOperands(), isThere))
      continue;
    for (OpOperand *use : ArrayRef(uses).drop_front())
      if (use->getOwner() != uses.front()->getOwner())
        use->set(OpBuilder(use->getOwner()).clone(*op)->getResult(0));
    op->moveBefore(uses.front()->getOwner());
  }
}

/// Whether `op` reads a vector of a ring and nothing else, so that it can run once that is taken.
static bool broadcastsTaken(Operation *op) {
  return isa<BroadcastOp>(op) && op->getOperand(0).getDefiningOp<TakeOp>();
}

/// Whether elementwise ops make an operand of `op` of `tile`.
static bool isMadeOf(Operation *op, Value tile) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return operand == tile || (maker && OpTrait::hasElementwiseMappableTraits(maker) &&
                               maker->getBlock() == op->getBlock() && isMadeOf(maker, tile));
  });
}

void ejk::useResultsEarly(Block &block) {
  for (DotOp dot : llvm::to_vector(block.getOps<DotOp>())) {
    bool isContinued = llvm::any_of(dot->getUsers(), [&](Operation *user) {
      auto next = dyn_cast<DotOp>(user);
      return next && next.getAcc() == dot.getResult();
    });
    Operation *next = dot->getNextNode();
    bool endsRun = !isa_and_nonnull<DotOp>(next);
    while (next && !isa<DotOp>(next))
      next = next->getNextNode();
    bool isWaitedFor = next && isMadeOf(next, dot.getResult());
    bool holdsOperand = endsRun && registersOf(dot.getAcc()) == 0 &&
                        (registersOf(dot.getLhs()) || registersOf(dot.getRhs()));
    if (isContinued || !(isWaitedFor || holdsOperand))
      continue;
    llvm::DenseSet<Operation *> moved;
    Operation *last = dot;
    auto move = [&](Operation *op) {
      op->moveAfter(last);
      moved.insert(op);
      last = op;
    };
    auto isThere = [&](Value value) {
      Operation *maker = value.getDefiningOp();
      return !maker || maker->getBlock() != &block || maker->isBeforeInBlock(last) || maker == last;
    };
    SmallVector<Operation *> later;
    for (Operation *op = dot->getNextNode(); op; op = op->getNextNode())
      later.push_back(op);
    for (Operation *op : later) {
      bool isOfResult = llvm::any_of(op->getOperands(), [&](Value operand) {
        return operand == dot.getResult() || moved.contains(operand.getDefiningOp());
      });
      if (!isOfResult || !OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() != 1)
        continue;
      SmallVector<Operation *> before;
      bool canMove = llvm::all_of(op->getOperands(), [&](Value operand) {
        Operation *maker = operand.getDefiningOp();
        if (isThere(operand))
          return true;
        if (!broadcastsTaken(maker))
          return false;
        before.push_back(maker);
        return true;
      });
      if (!canMove)
        continue;
      for (Operation *maker : before) {
        auto take = maker->getOperand(0).getDefiningOp<TakeOp>();
        if (!isThere(maker->getOperand(0)))
          move(take);
        move(maker);
      }
      move(op);
    }
  }
}

/// Moves the elementwise ops that follow from `dot` and from what is there at `place` behind that.
static void moveResultsAfter(DotOp dot, Operation *place) {
  llvm::SetVector<Value> made;
  made.insert(dot.getResult());
  for (Operation &op : llvm::make_early_inc_range(
           llvm::make_range(std::next(Block::iterator(place)), place->getBlock()->end()))) {
    bool follows = llvm::any_of(op.getOperands(), [&](Value v) { return made.contains(v); });
    bool isThere = llvm::all_of(op.getOperands(), [&](Value v) {
      Operation *maker = v.getDefiningOp();
      return made.contains(v) || !maker || maker->getBlock() != op.getBlock() ||
             maker->isBeforeInBlock(place);
    });
    if (!follows || !isThere || !isPure(&op) || op.getNumRegions() || isa<DotOp>(op))
      continue;
    op.moveAfter(place);
    place = &op;
    made.insert(op.result_begin(), op.result_end());
  }
}

void ejk::issueMatmulsEarly(Block &block) {
  Operation *place = nullptr;
  InvertDiagonalOp inversion;
  for (auto load : block.getOps<LoadOp>())
    place = !place || place->isBeforeInBlock(load) ? load : place;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto dot = dyn_cast<DotOp>(op);
    if (!inversion)
      inversion = dyn_cast<InvertDiagonalOp>(op);
    if (!dot || dot.getAcc().getParentBlock() == &block || dot->isBeforeInBlock(place) ||
        !llvm::all_of(ValueRange{dot.getLhs(), dot.getRhs()}, [](Value operand) {
          return operand.getDefiningOp<LoadOp>() != nullptr;
        }))
      continue;
    if (inversion) {
      dot->moveBefore(inversion);
      moveResultsAfter(dot, inversion);
      continue;
    }
    dot->moveAfter(place);
    place = dot;
  }
}
