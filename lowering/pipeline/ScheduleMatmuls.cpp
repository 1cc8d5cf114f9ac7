//===- ScheduleMatmuls.cpp - products early, other work meanwhile ---------===//
//
// List scheduling of one block, on a clock that counts a thread block's cycles. The
// warps issue one op after another; products queue for the tensor cores and end
// later; what other warps wrote to shared memory can be read behind a barrier, which
// serves all that was written before it. In the end, what takes registers that it need
// not take yet is put off.
//
//===----------------------------------------------------------------------===//
#include "lowering/Passes.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/LiveRanges.h"
#include "passes/program/RegisterPressure.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_SCHEDULEMATMULS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Estimates, in cycles
//===----------------------------------------------------------------------===//

/// Of one multiprocessor: multiplications a cycle on tensor cores, elementwise ops,
/// exponentials, and bytes of shared memory.
static constexpr int64_t kProductsPerCycle = 2048, kOpsPerCycle = 128, kExpsPerCycle = 16,
                         kBytesPerCycle = 128;
static constexpr int64_t kProductLatency = 40, kSharedLatency = 30, kBarrier = 60, kIssue = 4;

/// Registers of a thread that fragments may take before a product must wait for others to
/// end: what its block's products leave, each of which has addresses of factors and of what
/// is made of it. Those of a branch were made in front of it, more where it has many products;
/// most where warps take these one by one (`mma.sync`), with all factors in registers.
static constexpr int64_t kRegisters = 224, kRegistersOfProduct = 12, kRegistersOfBranch = 150,
                         kRegistersOfLongBranch = 118, kRegistersOfWarpsBranch = 90;

static int64_t elementsOf(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type ? type.getNumElements() : 1;
}

/// Cycles in which the warps issue `op`.
static int64_t issueOf(Operation *op) {
  if (op->getNumResults() == 0 || isa<DotOp, LoadOp>(op))
    return kIssue;
  Value result = op->getResult(0);
  if (isa<ConvertOp>(op))
    return kIssue + 4 * elementsOf(result) / kBytesPerCycle;
  if (auto sum = dyn_cast<tile::SumOp>(op))
    return kIssue + elementsOf(sum.getTile()) / kOpsPerCycle;
  LayoutAttr layout = isa<VectorType>(result.getType()) ? ejk::layoutOf(result) : LayoutAttr();
  if (!isFragments(layout)) // of a vector, or a number, all warps have the whole
    return isa<CumsumOp>(op) ? 100 : kIssue;
  if (isa<SpreadOp>(op))
    return 100;
  return kIssue +
         elementsOf(result) / (isa<math::ExpOp, math::Exp2Op>(op) ? kExpsPerCycle : kOpsPerCycle);
}

static int64_t productTime(DotOp dot) {
  auto lhs = cast<VectorType>(dot.getLhs().getType());
  int64_t length = lhs.getDimSize(dot.getLhsTransposed() ? 0 : 1);
  return elementsOf(dot.getResult()) * length / kProductsPerCycle;
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

namespace {
class BlockScheduler {
public:
  explicit BlockScheduler(Block &block) : block(block), most(mostRegisters(block)) {}

  unsigned run() {
    SmallVector<Operation *> order;
    for (Operation &op : block.without_terminator())
      order.push_back(&op);
    findDependences(order);
    findRemaining(order);
    findUses(order);
    llvm::SetVector<Operation *> left(order.begin(), order.end());
    SmallVector<Operation *> scheduled;
    while (!left.empty()) {
      Operation *next = choose(left);
      issue(next);
      left.remove(next);
      scheduled.push_back(next);
    }
    unsigned moved = 0;
    for (auto [before, after] : llvm::zip(order, scheduled)) {
      moved += before != after;
      after->moveBefore(block.getTerminator());
    }
    putOff(block);
    readAgain(block);
    putOff(block);
    putVectorsLast();
    return moved;
  }

private:
  /// What comes of vectors and numbers alone, and goes nowhere but to memory or to the next
  /// iteration, goes behind the last product, which is taken meanwhile: their chains of
  /// shuffles side by side, behind one barrier for all the sums that they start from.
  void putVectorsLast() {
    auto dots = block.getOps<DotOp>();
    if (dots.empty() || !isa<scf::ForOp>(block.getParentOp()))
      return;
    Operation *last = nullptr;
    for (DotOp dot : dots)
      last = dot;
    llvm::SetVector<Operation *> goesNowhere, late;
    SmallVector<Operation *> ops = opsOf(block);
    for (Operation *op : llvm::reverse(ops))
      if (isOfVectors(op) && llvm::all_of(op->getUsers(), [&](Operation *user) {
            return user == block.getTerminator() || goesNowhere.contains(user);
          }))
        goesNowhere.insert(op);
    auto isThere = [&](Value value) {
      Operation *maker = value.getDefiningOp();
      return !maker || maker->getBlock() != &block || late.contains(maker) ||
             maker->isBeforeInBlock(last);
    };
    for (Operation *op : ops)
      if (goesNowhere.contains(op) && llvm::all_of(op->getOperands(), isThere))
        late.insert(op);
    for (Operation *op : late) {
      op->moveAfter(last);
      last = op;
    }
  }

  /// Whether `op` only takes and gives vectors over lanes, and numbers, in registers.
  static bool isOfVectors(Operation *op) {
    auto isVector = [](Value value) {
      auto vector = dyn_cast<VectorType>(value.getType());
      return !vector || vector.getRank() < 2;
    };
    if (isa<StoreOp>(op))
      return isVector(cast<StoreOp>(op).getTile());
    return isPure(op) && op->getNumRegions() == 0 && op->getNumResults() == 1 &&
           !isa<ConvertOp, LoadOp>(op) && !op->getResult(0).getType().isIndex() &&
           isVector(op->getResult(0)) && llvm::all_of(op->getOperands(), isVector);
  }

  static int64_t mostRegisters(Block &block) {
    if (isa<scf::IfOp>(block.getParentOp()))
      return usesWarpMatmuls(block)  ? kRegistersOfWarpsBranch
             : hasManyMatmuls(block) ? kRegistersOfLongBranch
                                     : kRegistersOfBranch;
    return kRegisters - kRegistersOfProduct * int64_t(llvm::range_size(block.getOps<DotOp>()));
  }

  /// What must stand before each op: the makers of its operands; of an op that stores,
  /// the ones that store there before; of an op with regions, all, and it before all behind.
  void findDependences(ArrayRef<Operation *> order) {
    llvm::DenseMap<Value, Operation *> lastStore; // by where it goes
    Operation *lastRegion = nullptr;
    SmallVector<Operation *> ofCarried;
    for (Operation *op : order)
      if (isOfCarried(op))
        ofCarried.push_back(op);
    for (size_t i = 0; i < order.size(); ++i) {
      Operation *op = order[i];
      auto &before = needs[op];
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *maker = operand.getDefiningOp())
            if (Operation *here = block.findAncestorOpInBlock(*maker); here && here != op)
              before.push_back(here);
      });
      if (isa<DotOp>(op))
        before.append(ofCarried.begin(), ofCarried.end());
      if (lastRegion)
        before.push_back(lastRegion);
      if (op->getNumRegions()) {
        before.append(order.begin(), order.begin() + i);
        lastRegion = op;
      }
      if (isa<StoreOp, StoreCellOp>(op)) {
        Operation *&last = lastStore[op->getOperand(1)];
        if (last)
          before.push_back(last);
        last = op;
      }
    }
    // Behind all that must be so.
    for (DotOp dot : block.getOps<DotOp>())
      addOtherUsers(dot);
  }

  /// What else uses the accumulators that `dot` adds to, down to the sums that this is for, goes
  /// before it where it can: behind it they would have to be kept twice.
  void addOtherUsers(DotOp dot) {
    if (registersOf(dot.getAcc()) == 0)
      return; // a constant, which takes none
    SmallVector<Operation *> left(dot.getAcc().getUsers());
    while (!left.empty()) {
      Operation *user = left.pop_back_val();
      if (user == dot || user->getBlock() != &block ||
          (isa<DotOp>(user) && dot->isBeforeInBlock(user)) || comesBehind(user, dot))
        continue;
      needs[dot].push_back(user);
      if (OpTrait::hasElementwiseMappableTraits(user) && user->hasOneUse())
        left.push_back(*user->user_begin());
    }
  }

  /// Whether `op` must come behind `other`.
  bool comesBehind(Operation *op, Operation *other) {
    llvm::SetVector<Operation *> before;
    before.insert(op);
    for (unsigned i = 0; i < before.size(); ++i) {
      if (before[i] == other)
        return true;
      auto it = needs.find(before[i]);
      if (it != needs.end())
        before.insert(it->second.begin(), it->second.end());
    }
    return false;
  }

  /// Whether `op` rounds what a loop carries, perhaps scaled. That goes before all
  /// products: the assembler lets nobody make a factor in registers, or read accumulators of
  /// the iteration before, while a product is taken.
  static bool isOfCarried(Operation *op) {
    return isa<arith::TruncFOp>(op) && madeOfCarried(op->getOperand(0));
  }
  static bool madeOfCarried(Value value) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type || type.getRank() != 2)
      return false;
    if (auto arg = dyn_cast<BlockArgument>(value))
      return isa<scf::ForOp>(arg.getOwner()->getParentOp());
    Operation *maker = value.getDefiningOp();
    return isa<arith::MulFOp, arith::AddFOp, ConvertOp>(maker) &&
           llvm::any_of(maker->getOperands(),
                        [&](Value operand) { return madeOfCarried(operand); }) &&
           llvm::none_of(maker->getOperands(),
                         [](Value operand) { return operand.getDefiningOp<DotOp>() != nullptr; });
  }

  /// Cycles from when each op's result is there to the end of the last that needs it.
  void findRemaining(ArrayRef<Operation *> order) {
    for (Operation *op : llvm::reverse(order)) {
      int64_t time = remaining.lookup(op) + issueOf(op);
      if (auto dot = dyn_cast<DotOp>(op))
        time += productTime(dot) + kProductLatency;
      for (Operation *maker : needs.lookup(op))
        remaining[maker] = std::max(remaining.lookup(maker), time);
    }
  }

  /// Which values each op uses, in regions too; those from before the block are there.
  void findUses(ArrayRef<Operation *> order) {
    auto note = [&](Operation *op) {
      llvm::SetVector<Value> used;
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
            used.insert(operand);
      });
      for (Value value : used) {
        ++usesLeft[value];
        if (Operation *maker = value.getDefiningOp(); maker && maker->getBlock() == &block)
          continue;
        if (usesLeft[value] == 1)
          registers += registersOf(value);
      }
      usedBy[op] = used.takeVector();
    };
    for (Operation *op : order)
      note(op);
    note(block.getTerminator());
  }

  /// Whether `op` passes a barrier on its own.
  static bool hasBarrier(Operation *op) { return op->getNumRegions() || isa<WithinOp>(op); }

  bool needsBarrier(Operation *op) const {
    return hasBarrier(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
             auto it = written.find(operand);
             return it != written.end() && it->second == barriers;
           });
  }

  int64_t startOf(Operation *op) const {
    int64_t start = now + (needsBarrier(op) ? kBarrier : 0);
    for (Operation *maker : needs.lookup(op))
      start = std::max(start, ready.lookup(maker));
    return start;
  }

  /// When `op` would best start: at once, but for a product that others, which more depends
  /// on, should not queue behind. That one waits until the tensor cores have nothing to do.
  int64_t bestStartOf(Operation *op, const llvm::SetVector<Operation *> &left) const {
    int64_t start = startOf(op);
    bool lets =
        isa<DotOp>(op) && llvm::any_of(left, [&](Operation *other) {
          return isa<DotOp>(other) && other != op && remaining.lookup(other) > remaining.lookup(op);
        });
    return lets ? std::max(start, productsDone) : start;
  }

  /// The op that can start first: of several the first product, or the first in program
  /// order. A product lets one pass that more depends on, if that will not be long.
  Operation *choose(const llvm::SetVector<Operation *> &left) const {
    SmallVector<Operation *> available;
    for (Operation *op : left)
      if (llvm::none_of(needs.lookup(op), [&](Operation *maker) { return left.contains(maker); }))
        available.push_back(op);
    assert(!available.empty() && "ops that must come before each other");
    if (!llvm::all_of(available, [&](Operation *op) { return takesTooMany(op); }))
      llvm::erase_if(available, [&](Operation *op) { return takesTooMany(op); });
    Operation *best = available.front();
    for (Operation *op : ArrayRef(available).drop_front()) {
      int64_t start = bestStartOf(op, left), bestStart = bestStartOf(best, left);
      if (start < bestStart || (start == bestStart && isa<DotOp>(op) && !isa<DotOp>(best)))
        best = op;
    }
    if (!isa<DotOp>(best))
      return best;
    int64_t latest = bestStartOf(best, left) + 2 * kBarrier;
    for (Operation *op : available)
      if (isa<DotOp>(op) && remaining.lookup(op) > remaining.lookup(best) && startOf(op) <= latest)
        best = op;
    return best;
  }

  /// Whether `op` is a product with accumulators of its own for which registers are missing.
  bool takesTooMany(Operation *op) const {
    auto dot = dyn_cast<DotOp>(op);
    return dot && registersOf(dot.getAcc()) == 0 && registers + registersOf(dot.getResult()) > most;
  }

  void issue(Operation *op) {
    for (Value value : usedBy.lookup(op))
      if (--usesLeft[value] == 0)
        registers -= registersOf(value);
    for (Value result : op->getResults())
      registers += registersOf(result);
    int64_t start = startOf(op);
    if (needsBarrier(op))
      ++barriers;
    now = start + issueOf(op);
    int64_t done = now;
    if (auto dot = dyn_cast<DotOp>(op)) {
      productsDone = std::max(productsDone, now) + productTime(dot);
      done = productsDone + kProductLatency;
    } else if (isa<ConvertOp>(op)) {
      done += kSharedLatency;
    }
    ready[op] = done;
    for (Value result : op->getResults())
      // The parts of a sum are there, too, until it is used.
      if (isa<VectorType>(result.getType()) && !isa<LoadOp>(op) &&
          (isInShared(ejk::layoutOf(result)) || isa<tile::SumOp>(op)))
        written[result] = barriers;
  }

  Block &block;
  int64_t most; // registers
  llvm::DenseMap<Operation *, SmallVector<Operation *>> needs;
  llvm::DenseMap<Operation *, SmallVector<Value>> usedBy;
  llvm::DenseMap<Value, unsigned> usesLeft;
  int64_t registers = 0;
  llvm::DenseMap<Operation *, int64_t> remaining;
  /// When an op's results are there.
  llvm::DenseMap<Operation *, int64_t> ready;
  /// What lies in shared memory, by how many barriers were before it.
  llvm::DenseMap<Value, unsigned> written;
  int64_t now = 0, productsDone = 0;
  unsigned barriers = 0;
};

struct ScheduleMatmulsPass : ejk::impl::ScheduleMatmulsBase<ScheduleMatmulsPass> {
  /// Items of rings are taken and released in their order, which this does not know.
  static bool isToBeScheduled(ProgramOp program) {
    return program->hasAttr(kWarpgroupsAttr) && program.getBlock().getOps<MakeRingOp>().empty();
  }

  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    SmallVector<Block *> blocks;
    getOperation()->walk([&](DotOp dot) {
      auto program = dot->getParentOfType<ProgramOp>();
      // A branch's other side is taken where gates are too strong, and need not be fast.
      if (isOnExactPath(dot))
        return;
      if (isToBeScheduled(program) && !llvm::is_contained(blocks, dot->getBlock()))
        blocks.push_back(dot->getBlock());
    });
    getOperation()->walk([](ProgramOp program) {
      if (!isToBeScheduled(program))
        return;
      program.walk([](scf::ForOp loop) {
        if (isa<scf::IfOp>(loop->getParentOp()))
          useInitsEarly(loop);
      });
      // Its barrier serves what is stored before the branch, too.
      program.walk([](WithinOp within) {
        if (within->hasOneUse() && isa<scf::IfOp>(*within->user_begin()))
          within->moveBefore(*within->user_begin());
      });
      endTilesEarly(program);
      moveIntoBranches(program);
    });
    for (Block *block : blocks) {
      numMoved += BlockScheduler(*block).run();
      if (auto branch = dyn_cast<scf::IfOp>(block->getParentOp())) {
        putOff(*branch->getBlock());
        if (branch.elseBlock()) {
          makeAgain(*branch.elseBlock());
          putOff(*branch.elseBlock());
        }
      }
    }
  }
};
} // namespace
