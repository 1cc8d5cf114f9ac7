//===- SpecializeWarps.cpp - producer and consumer warps -------------------===//
//
// Splits a program into producer warps, which copy, and consumer warps, which compute. Scalars that
// both may need stay before the partitions. The producer gets a copy of the loops around fills,
// with the scalars that the fills need. The consumer gets everything else.
//
//===----------------------------------------------------------------------===//
#include "lowering/Passes.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/target/Target.h"
#include "dialect/tile/Branch.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ejk {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The number of consumer warps if the program is not laid out.
static constexpr int64_t kWarps = 4;

static bool isTile(Value value) { return isa<VectorType>(value.getType()); }

static bool fillsRing(Operation *op) { return isa<AcquireOp, FillOp>(op); }

static bool holdsFills(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return fillsRing(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {
class Separator {
public:
  Separator(ProgramOp program, int64_t producerWarps, bool setsRegisters)
      : program(program), producerWarps(producerWarps), setsRegisters(setsRegisters),
        b(program.getContext()) {}

  /// Emits a remark and fails if the program cannot be split.
  LogicalResult run() {
    for (Operation &op : program.getBlock().without_terminator())
      if (staysBeforePartitions(&op))
        beforePartitions.insert(&op);
    if (failed(checkFills(program.getBlock())))
      return failure();

    Location loc = program.getLoc();
    b.setInsertionPoint(program.getBlock().getTerminator());
    auto partitions = WarpSpecializeOp::create(b, loc);
    b.createBlock(&partitions.getBody());
    auto laidOut = program->getAttrOfType<IntegerAttr>(kWarpsAttr);
    int64_t consumerWarps = laidOut ? laidOut.getInt() : kWarps;
    PartitionOp consumer = makePartition(loc, "consumer", consumerWarps);
    PartitionOp producer = makePartition(loc, "producer", producerWarps);
    shareRegisters(consumer, producer);

    b.setInsertionPointToStart(&producer.getBody().front());
    IRMapping known;
    copyFills(program.getBlock(), known);

    Block &consumed = consumer.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(program.getBlock().without_terminator()))
      if (!beforePartitions.contains(&op) && &op != partitions.getOperation())
        op.moveBefore(&consumed, consumed.end());
    consumer.walk([](Operation *op) {
      if (fillsRing(op))
        op->erase();
    });
    // Erase ops that only the fills needed.
    consumer.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
      if (isOpTriviallyDead(op))
        op->erase();
    });
    return success();
  }

private:
  /// Whether `op` stays before the partitions: scalars computed from scalars, and constants.
  bool staysBeforePartitions(Operation *op) {
    if (isa<MakeRingOp>(op))
      return true;
    if (op->getNumRegions() || !isPure(op) || isa<TileDialect>(op->getDialect()))
      return false;
    if (op->hasTrait<OpTrait::ConstantLike>())
      return true;
    return llvm::none_of(op->getResults(), isTile) &&
           llvm::all_of(op->getOperands(), [&](Value v) { return isBeforePartitions(v); });
  }
  bool isBeforePartitions(Value value) {
    Operation *def = value.getDefiningOp();
    return def ? beforePartitions.contains(def) : value.getParentBlock() == &program.getBlock();
  }

  LogicalResult decline(Operation *op, StringRef why) {
    op->emitRemark("no partition of its own: ") << why;
    return failure();
  }

  /// Whether the producer can compute `value`.
  bool canCopy(Value value) {
    if (isBeforePartitions(value))
      return true;
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
      return loop && arg == loop.getInductionVar();
    }
    Operation *def = value.getDefiningOp();
    return !isTile(value) && !def->getNumRegions() && isPure(def) &&
           llvm::all_of(def->getOperands(), [&](Value v) { return canCopy(v); });
  }

  /// Whether two values are the same or computed by equal ops.
  static bool areAlike(Value a, Value b) {
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    auto operandsAreAlike = [](Value a, Value b) { return success(areAlike(a, b)); };
    return a == b || (x && y && isPure(x) && x->getNumRegions() == 0 &&
                      cast<OpResult>(a).getResultNumber() == cast<OpResult>(b).getResultNumber() &&
                      OperationEquivalence::isEquivalentTo(x, y, operandsAreAlike,
                                                           /*markEquivalent=*/nullptr,
                                                           OperationEquivalence::IgnoreLocations));
  }

  /// Whether both branches fill rings equally, so that the producer need not know the condition.
  static bool fillsInBothBranches(Branch branch) {
    if (!branch.elseBlock())
      return false;
    auto fillsOf = [](Block &side) {
      SmallVector<Operation *> fills;
      side.walk([&](Operation *op) {
        if (fillsRing(op))
          fills.push_back(op);
      });
      return fills;
    };
    auto some = fillsOf(*branch.thenBlock()), others = fillsOf(*branch.elseBlock());
    return some.size() == others.size() && llvm::all_of(llvm::zip(some, others), [&](auto pair) {
             auto [a, b] = pair;
             return a->getName() == b->getName() && a->getBlock() == branch.thenBlock() &&
                    b->getBlock() == branch.elseBlock() &&
                    llvm::all_of_zip(a->getOperands(), b->getOperands(), areAlike);
           });
  }

  LogicalResult checkFills(Block &block) {
    for (Operation &op : block) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!fillsRing(&op) && !holdsFills(&op))
        continue;
      if (Branch branch = Branch::of(&op); branch && fillsInBothBranches(branch)) {
        if (failed(checkFills(*branch.thenBlock())))
          return failure();
        continue;
      }
      if (!fillsRing(&op) && !loop)
        return decline(&op, "a ring is filled under a branch");
      ValueRange needed = op.getOperands();
      if (loop)
        needed = needed.take_front(loop.getNumControlOperands());
      if (!llvm::all_of(
              needed, [&](Value v) { return isa<RingType, RowsType>(v.getType()) || canCopy(v); }))
        return decline(&op, "it needs what is computed of tiles");
      if (loop && failed(checkFills(*loop.getBody())))
        return failure();
    }
    return success();
  }

  Value copyOf(Value value, IRMapping &known) {
    if (isBeforePartitions(value))
      return value;
    if (Value copy = known.lookupOrNull(value))
      return copy;
    Operation *def = value.getDefiningOp();
    for (Value operand : def->getOperands())
      known.map(operand, copyOf(operand, known));
    b.clone(*def, known);
    return known.lookup(value);
  }

  void copyFills(Block &block, IRMapping known) {
    for (Operation &op : block) {
      if (fillsRing(&op)) {
        for (Value operand : op.getOperands())
          known.map(operand, copyOf(operand, known));
        b.clone(op, known);
      } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && holdsFills(loop)) {
        auto copy =
            scf::ForOp::create(b, loop.getLoc(), copyOf(loop.getLowerBound(), known),
                               copyOf(loop.getUpperBound(), known), copyOf(loop.getStep(), known));
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(copy.getBody());
        IRMapping inner = known;
        inner.map(loop.getInductionVar(), copy.getInductionVar());
        copyFills(*loop.getBody(), inner);
      } else if (Branch branch = Branch::of(&op); branch && holdsFills(&op)) {
        copyFills(*branch.thenBlock(), known);
      }
    }
  }

  PartitionOp makePartition(Location loc, StringRef name, int64_t warps) {
    auto partition = PartitionOp::create(b, loc, b.getStringAttr(name), b.getI64IntegerAttr(warps),
                                         IntegerAttr());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&partition.getBody());
    return partition;
  }

  /// With `setmaxnreg`, gives the consumer the registers that the producer does not need, if
  /// threads have fewer than the maximum.
  void shareRegisters(PartitionOp consumer, PartitionOp producer) {
    constexpr int64_t group = 4, few = 40;
    int64_t consumers = consumer.getWarps(), producers = producer.getWarps();
    int64_t all = registersOf((consumers + producers) * kWarpSize);
    if (!setsRegisters || consumers % group || producers % group || all >= kMostRegisters)
      return;
    int64_t more = (all * (consumers + producers) - few * producers) / consumers;
    consumer.setRegisters(std::min<int64_t>(more / 8 * 8, kMostRegisters));
    producer.setRegisters(few);
  }

  ProgramOp program;
  int64_t producerWarps;
  bool setsRegisters;
  OpBuilder b;
  llvm::DenseSet<Operation *> beforePartitions;
};

struct SpecializeWarpsPass : ejk::impl::SpecializeWarpsBase<SpecializeWarpsPass> {
  using SpecializeWarpsBase::SpecializeWarpsBase;
  void runOnOperation() override {
    if (producerWarps < 1) {
      getOperation()->emitError() << "'producer-warps' must be positive, but is "
                                  << int64_t(producerWarps);
      return signalPassFailure();
    }
    const Target *target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) {
      if (!holdsFills(program) || !program.getBlock().getOps<WarpSpecializeOp>().empty())
        return;
      if (succeeded(Separator(program, producerWarps, target->hasSetMaxRegisters).run()))
        ++numSeparated;
      else
        ++numDeclined;
    });
  }
};
} // namespace
