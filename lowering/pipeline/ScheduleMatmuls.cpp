//===- ScheduleMatmuls.cpp - list scheduling around matmuls ----------------===//
//
// List scheduling of a block, with a clock in cycles of one SM. Warps issue ops one after another.
// Matmuls queue on the tensor cores and complete later. Data that other warps stored to shared
// memory can be read after a barrier, and one barrier serves all earlier stores. The schedule
// issues matmuls as early as possible and fills the wait with other work. Where more registers are
// live at once than a thread has, it tries an order that saves some. In the end, ops whose results
// take registers are sunk to their uses.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/Estimates.h"
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/pipeline/OrderByDemand.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/program/RegisterPressure.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_SCHEDULEMATMULS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

namespace {
class BlockScheduler {
public:
  explicit BlockScheduler(Block &block)
      : block(block), most(mostRegisters(block)),
        hasTf32(llvm::any_of(block.getOps<DotOp>(), [](DotOp dot) { return dot.isInTf32(); })) {}

  unsigned run() {
    SmallVector<Operation *> order;
    for (Operation &op : block.without_terminator())
      order.push_back(&op);
    findDependences(order);
    findRemaining(order);
    SmallVector<Operation *> scheduled = schedule(order);
    if (int64_t before = peak; before > cost::kFragmentsOfThread) {
      savesRegisters = true;
      if (SmallVector<Operation *> other = schedule(order); peak < before)
        scheduled = std::move(other);
    }
    unsigned moved = 0;
    for (auto [before, after] : llvm::zip(order, scheduled)) {
      moved += before != after;
      after->moveBefore(block.getTerminator());
    }
    sinkToUses(block);
    reloadOperands(block);
    sinkToUses(block);
    putVectorsLast();
    return moved;
  }

private:
  /// The ops of the block in the order in which they are issued.
  SmallVector<Operation *> schedule(ArrayRef<Operation *> order) {
    usesLeft.clear();
    usedBy.clear();
    ready.clear();
    written.clear();
    registers = peak = now = matmulsDone = 0;
    barriers = 0;
    findUses(order);
    llvm::SetVector<Operation *> left(order.begin(), order.end());
    SmallVector<Operation *> scheduled;
    while (!left.empty()) {
      Operation *next = choose(left);
      issue(next);
      left.remove(next);
      scheduled.push_back(next);
    }
    return scheduled;
  }

  /// Moves ops on vectors and scalars whose results only go to memory or the next iteration after
  /// the last matmul, so that they overlap with it. Their chains of shuffles then run side by side,
  /// after one barrier for all their reductions.
  void putVectorsLast() {
    if (!isa<scf::ForOp>(block.getParentOp()))
      return;
    Operation *last = nullptr; // a block that is scheduled has a matmul
    for (DotOp dot : block.getOps<DotOp>())
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

  /// Whether `op` has only vectors and scalars in registers as operands and results.
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
    cost::BlockShape shape;
    shape.isBranch = Branch::is(block.getParentOp());
    for (DotOp dot : block.getOps<DotOp>())
      shape.matmuls += dot.isInTf32() ? cost::kMatmulsOfTf32 : 1;
    shape.byWarps = shape.isBranch && usesWarpMatmuls(block);
    shape.hasManyMatmuls = hasManyMatmuls(block);
    return cost::fragmentRegisters(shape);
  }

  /// Finds the dependences of each op: the ops that define its operands; for a store, earlier
  /// stores to the same tensor; for an op with regions, all earlier ops; for any op, the last op
  /// with regions before it.
  void findDependences(ArrayRef<Operation *> order) {
    llvm::DenseMap<Value, Operation *> lastStore; // by destination
    Operation *lastRegion = nullptr;
    for (size_t i = 0; i < order.size(); ++i) {
      Operation *op = order[i];
      auto &before = needs[op];
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *maker = operand.getDefiningOp())
            if (Operation *here = block.findAncestorOpInBlock(*maker); here && here != op)
              before.push_back(here);
      });
      if (lastRegion)
        before.push_back(lastRegion);
      if (op->getNumRegions()) {
        before.append(order.begin(), order.begin() + i);
        lastRegion = op;
      }
      if (isa<StoreOp, StoreSlotOp>(op)) {
        Operation *&last = lastStore[op->getOperand(1)];
        if (last)
          before.push_back(last);
        last = op;
      }
    }
    // After all true dependences are known.
    for (Operation *op : order)
      if (isOfCarried(op))
        for (DotOp dot : block.getOps<DotOp>())
          if (!dependsOn(op, dot)) // by a factor, say
            needs[dot].push_back(op);
    for (DotOp dot : block.getOps<DotOp>())
      addOtherUsers(dot);
  }

  /// Orders other users of the accumulators that `dot` adds to before it if possible. After it, the
  /// old accumulators would have to be live, too.
  void addOtherUsers(DotOp dot) {
    if (registersOf(dot.getAcc()) == 0)
      return; // a constant takes no registers
    SmallVector<Operation *> left(dot.getAcc().getUsers());
    while (!left.empty()) {
      Operation *user = left.pop_back_val();
      if (user == dot || user->getBlock() != &block ||
          (isa<DotOp>(user) && dot->isBeforeInBlock(user)) || dependsOn(user, dot))
        continue;
      needs[dot].push_back(user);
      if (OpTrait::hasElementwiseMappableTraits(user) && user->hasOneUse())
        left.push_back(*user->user_begin());
    }
  }

  /// Whether `op` depends on `other`.
  bool dependsOn(Operation *op, Operation *other) {
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

  /// Whether `op` rounds a loop-carried value, perhaps scaled. Such ops go before all matmuls:
  /// while a `wgmma` runs, the assembler cannot write an operand to registers or read the previous
  /// iteration's accumulators.
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

  /// Computes for each op the length of the longest chain of dependent ops after it, in cycles.
  void findRemaining(ArrayRef<Operation *> order) {
    for (Operation *op : llvm::reverse(order)) {
      int64_t time = remaining.lookup(op) + issueCycles(op);
      if (auto dot = dyn_cast<DotOp>(op))
        time += matmulCycles(dot) + cost::kMatmulLatency;
      for (Operation *maker : needs.lookup(op))
        remaining[maker] = std::max(remaining.lookup(maker), time);
    }
  }

  /// Finds the values that each op uses, also in its regions. Values from before the block are live
  /// at its start.
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

  /// Whether `op` contains a barrier.
  static bool hasBarrier(Operation *op) { return op->getNumRegions() || isa<RangeGuardOp>(op); }

  bool needsBarrier(Operation *op) const {
    return hasBarrier(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
             auto it = written.find(operand);
             return it != written.end() && it->second == barriers;
           });
  }

  int64_t startOf(Operation *op) const {
    int64_t start = now + (needsBarrier(op) ? cost::kBarrierLatency : 0);
    auto dot = dyn_cast<DotOp>(op);
    for (Operation *maker : needs.lookup(op)) {
      // Tensor cores add to accumulators in the order in which matmuls are issued.
      bool isAddedTo = hasTf32 && dot && isa<DotOp>(maker) && dot.getAcc() == maker->getResult(0) &&
                       dot.getLhs() != dot.getAcc() && dot.getRhs() != dot.getAcc();
      start = std::max(start, isAddedTo ? now : ready.lookup(maker));
    }
    return start;
  }

  /// The best start of `op`: its earliest one. But a matmul waits until the tensor cores are idle
  /// if more depends on another matmul, which would otherwise queue after it.
  int64_t bestStartOf(Operation *op, const llvm::SetVector<Operation *> &left) const {
    int64_t start = startOf(op);
    bool lets =
        isa<DotOp>(op) && llvm::any_of(left, [&](Operation *other) {
          return isa<DotOp>(other) && other != op && remaining.lookup(other) > remaining.lookup(op);
        });
    return lets ? std::max(start, matmulsDone) : start;
  }

  /// Whether `op`, which comes later in the program, goes before `other`, which can start as early:
  /// a matmul; or where registers are scarce what takes fewer of them.
  bool goesBefore(Operation *op, Operation *other) const {
    if (isa<DotOp>(op) || isa<DotOp>(other))
      return !isa<DotOp>(other);
    return savesRegisters && registers > cost::kFragmentsOfFullBlock && growth(op) < growth(other);
  }

  /// The op that can start first; among equals as `goesBefore` says, then program order. A matmul
  /// gives way to one that more depends on, if that one can start soon.
  Operation *choose(const llvm::SetVector<Operation *> &left) const {
    SmallVector<Operation *> available;
    for (Operation *op : left)
      if (llvm::none_of(needs.lookup(op), [&](Operation *maker) { return left.contains(maker); }))
        available.push_back(op);
    assert(!available.empty() && "ops that must come before each other");
    if (!llvm::all_of(available, [&](Operation *op) { return lacksRegisters(op); }))
      llvm::erase_if(available, [&](Operation *op) { return lacksRegisters(op); });
    Operation *best = available.front();
    for (Operation *op : ArrayRef(available).drop_front()) {
      int64_t start = bestStartOf(op, left), bestStart = bestStartOf(best, left);
      if (start < bestStart || (start == bestStart && goesBefore(op, best)))
        best = op;
    }
    if (!isa<DotOp>(best))
      return best;
    int64_t latest = bestStartOf(best, left) + 2 * cost::kBarrierLatency;
    for (Operation *op : available)
      if (isa<DotOp>(op) && remaining.lookup(op) > remaining.lookup(best) && startOf(op) <= latest)
        best = op;
    return best;
  }

  /// Whether `op` is a matmul for whose new accumulators there are too few registers. One that is the
  /// last use of an operand in as many registers takes more only while it runs, so that waiting saves
  /// none if a thread has those. That was measured where steps read the state that they correct.
  bool lacksRegisters(Operation *op) const {
    auto dot = dyn_cast<DotOp>(op);
    if (!dot || registersOf(dot.getAcc()) != 0)
      return false;
    if (growth(op) > 0 || !dot->getParentOfType<ProgramOp>().getCorrects())
      return registers + registersOf(dot.getResult()) > most;
    return registers + registersOf(dot.getResult()) > cost::kFragmentsOfPairedReads;
  }

  /// The registers that are live after `op`, less those before it.
  int64_t growth(Operation *op) const {
    int64_t more = 0;
    for (Value result : op->getResults())
      more += registersOf(result);
    for (Value value : usedBy.lookup(op))
      more -= usesLeft.lookup(value) == 1 ? registersOf(value) : 0;
    return more;
  }

  void issue(Operation *op) {
    for (Value value : usedBy.lookup(op))
      if (--usesLeft[value] == 0)
        registers -= registersOf(value);
    for (Value result : op->getResults())
      registers += registersOf(result);
    peak = std::max(peak, registers);
    int64_t start = startOf(op);
    if (needsBarrier(op))
      ++barriers;
    now = start + issueCycles(op);
    int64_t done = now;
    if (auto dot = dyn_cast<DotOp>(op)) {
      matmulsDone = std::max(matmulsDone, now) + matmulCycles(dot);
      done = matmulsDone + cost::kMatmulLatency;
    } else if (isa<ConvertOp>(op)) {
      done += cost::kSharedLatency;
    }
    ready[op] = done;
    for (Value result : op->getResults())
      // A reduction's partial sums lie in shared memory until its first use.
      if (isa<VectorType>(result.getType()) && !isa<LoadOp>(op) &&
          (isInShared(ejk::layoutOf(result)) || isa<tile::SumOp>(op)))
        written[result] = barriers;
  }

  Block &block;
  int64_t most; // registers
  /// Whether some matmuls are in tf32. The others' order was found with all in terms.
  bool hasTf32;
  llvm::DenseMap<Operation *, SmallVector<Operation *>> needs;
  llvm::DenseMap<Operation *, SmallVector<Value>> usedBy;
  llvm::DenseMap<Value, unsigned> usesLeft;
  int64_t registers = 0, peak = 0; // live ones, and the most of them
  bool savesRegisters = false;
  llvm::DenseMap<Operation *, int64_t> remaining;
  /// When an op's results are available.
  llvm::DenseMap<Operation *, int64_t> ready;
  /// Tiles in shared memory, with the number of barriers before their store.
  llvm::DenseMap<Value, unsigned> written;
  int64_t now = 0, matmulsDone = 0;
  unsigned barriers = 0;
};

struct ScheduleMatmulsPass : ejk::impl::ScheduleMatmulsBase<ScheduleMatmulsPass> {
  /// Programs with rings are not scheduled: the scheduler does not know the order of ring ops.
  static bool isToBeScheduled(ProgramOp program) {
    return program->hasAttr(kWarpgroupsAttr) && program.getBlock().getOps<MakeRingOp>().empty();
  }

  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    SmallVector<Block *> blocks;
    llvm::SetVector<Block *> inOrder; // of programs whose warps wait for their own matmuls
    getOperation()->walk([&](DotOp dot) {
      auto program = dot->getParentOfType<ProgramOp>();
      // The exact path is rare and need not be fast.
      if (isOnExactPath(dot))
        return;
      if (isToBeScheduled(program) && !llvm::is_contained(blocks, dot->getBlock()))
        blocks.push_back(dot->getBlock());
      if (program->hasAttr(kWarpsAttr) && !program->hasAttr(kWarpgroupsAttr) &&
          program.getBlock().getOps<MakeRingOp>().empty())
        inOrder.insert(dot->getBlock());
    });
    for (Block *block : inOrder) {
      endRangesEarly(*block);
      sinkToUses(*block);
    }
    getOperation()->walk([](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr) && !program->hasAttr(kWarpgroupsAttr) &&
          program.getBlock().getOps<MakeRingOp>().empty())
        orderByDemand(program);
    });
    getOperation()->walk([](ProgramOp program) {
      if (!isToBeScheduled(program))
        return;
      program.walk([](scf::ForOp loop) {
        if (isa<GuardedOp>(loop->getParentOp()))
          hoistUsesOfInits(loop);
      });
      // The guard's barrier then also serves stores before the branch.
      program.walk([](RangeGuardOp within) {
        if (within->hasOneUse() && isa<GuardedOp>(*within->user_begin()))
          within->moveBefore(*within->user_begin());
      });
      shortenTileRanges(program);
      sinkLoadsIntoBranches(program);
    });
    for (Block *block : blocks) {
      numMoved += BlockScheduler(*block).run();
      if (auto paths = dyn_cast<GuardedOp>(block->getParentOp())) {
        sinkToUses(*paths->getBlock());
        rematerialise(*paths.getExactBlock());
        sinkToUses(*paths.getExactBlock());
      }
    }
  }
};
} // namespace
