//===- DeferStateScaling.cpp - scale the state once per chunk --------------===//
//
// Merges two scalings of a loop-carried state. With decays per channel, a chunk scales the state by
// e^v at its end, and the next chunk scales it by e^m at its start. If nothing but a branch lies
// between the two, the loop carries v beside the unscaled state, and the state is scaled once, by
// e^(v + m).
//
// The unscaled state may be as large as e^v is small, so v + m must stay in the range of f32. The
// branch's range guard checks that.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/NumericRange.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ejk {
#define GEN_PASS_DEF_DEFERSTATESCALING
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// A tile times e^exponent, broadcast along `dim`.
struct Scaling {
  arith::MulFOp op;
  Value tile, exponent;
  unsigned dim;
};
} // namespace

/// How `op` scales a tile; it must be `tile` unless that is null.
static std::optional<Scaling> scalingBy(Operation *op, Value tile) {
  auto mul = dyn_cast_or_null<arith::MulFOp>(op);
  if (!mul)
    return std::nullopt;
  for (bool second : {false, true}) {
    Value scaled = mul->getOperand(second);
    auto spread = mul->getOperand(!second).getDefiningOp<BroadcastOp>();
    auto exp = spread ? spread.getVector().getDefiningOp<math::ExpOp>() : math::ExpOp();
    if (exp && (!tile || tile == scaled))
      return Scaling{mul, scaled, exp.getOperand(), unsigned(spread.getDim())};
  }
  return std::nullopt;
}

static Value scale(OpBuilder &b, Location loc, Value tile, Value exponent, unsigned dim) {
  Value factor = math::ExpOp::create(b, loc, exponent);
  Value spread = BroadcastOp::create(b, loc, tile.getType(), factor, dim);
  return arith::MulFOp::create(b, loc, tile, spread);
}

namespace {
/// A loop-carried value, by its number.
class StateScaling {
public:
  StateScaling(scf::ForOp loop, unsigned number) : loop(loop), number(number) {}

  bool find() {
    auto result = dyn_cast<OpResult>(loop.getYieldedValues()[number]);
    branch = result ? dyn_cast<GuardedOp>(result.getOwner()) : GuardedOp();
    if (!branch || branch->getParentOp() != loop || !result.hasOneUse())
      return false;
    resultNumber = result.getResultNumber();
    check = branch.getGuard().getDefiningOp<RangeGuardOp>();
    if (!check || check->getBlock() != loop.getBody() || !check->hasOneUse() || dependsOnPath())
      return false;
    std::optional<Scaling> last =
        scalingBy(branch.getFastYield().getOperand(resultNumber).getDefiningOp(), Value());
    if (!last || last->op->getBlock() != branch.getFastBlock() || !last->op->hasOneUse() ||
        !last->tile.getDefiningOp<DotOp>())
      return false;
    end = *last;
    // At the chunk's start, exactly one other scaling along the same dimension uses the state.
    Value state = loop.getRegionIterArg(number);
    for (Operation *user : state.getUsers()) {
      if (branch.getExact().isAncestor(user->getParentRegion()))
        continue;
      std::optional<Scaling> scaling = scalingBy(user, state);
      if (start || !scaling || user->getBlock() != branch.getFastBlock() || scaling->dim != end.dim)
        return false;
      start = scaling;
    }
    // The exponent must be available at the range guard.
    Operation *maker = start ? start->exponent.getDefiningOp() : nullptr;
    return start && (!maker || !loop.getBody()->findAncestorOpInBlock(*maker) ||
                     (maker->getBlock() == loop.getBody() && isKnownAtGuard(maker)));
  }

  /// Whether `op` is before the range guard, or may be moved there.
  bool isKnownAtGuard(Operation *op) {
    auto isBefore = [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return !maker || maker->getBlock() != loop.getBody() || maker->isBeforeInBlock(check);
    };
    return op->isBeforeInBlock(check) || (isPure(op) && llvm::all_of(op->getOperands(), isBefore));
  }

  /// Whether the other path is shorter chunks and states are read that another scan saves. Each
  /// path of that scan saves other states, and its guard does not look at what is checked here.
  bool dependsOnPath() {
    auto has = [](auto &&root, auto kind) {
      return root.walk([](decltype(kind)) { return WalkResult::interrupt(); }).wasInterrupted();
    };
    return has(branch.getExact(), GuardedOp()) && has(loop, LoadSlotOp());
  }

  void run() {
    Location loc = end.op.getLoc();
    OpBuilder b(loop);
    auto vector = cast<VectorType>(end.exponent.getType());
    Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(vector));

    IRRewriter rewriter(b);
    GuardedOp wider = widen(b, none);
    loop = cast<scf::ForOp>(
        *loop.replaceWithAdditionalYields(rewriter, none, /*replaceInitOperandUsesInLoop=*/false,
                                          [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
                                            return SmallVector<Value>{wider.getResults().back()};
                                          }));
    Value state = loop.getRegionIterArg(number), pending = loop.getRegionIterArgs().back();

    if (Operation *maker = start->exponent.getDefiningOp();
        maker && maker->getBlock() == check->getBlock() && check->isBeforeInBlock(maker))
      maker->moveBefore(check);
    b.setInsertionPoint(check);
    Value both = arith::AddFOp::create(b, loc, pending, start->exponent);
    double bound = check.getBound().convertToDouble();
    auto share =
        DenseElementsAttr::get(vector, b.getF32FloatAttr(bound / range::kSumNats).getValue());
    check->insertOperands(
        check->getNumOperands(),
        {arith::MulFOp::create(b, loc, both, arith::ConstantOp::create(b, loc, share))});
    b.setInsertionPoint(start->op);
    start->op.replaceAllUsesWith(scale(b, loc, state, both, start->dim));
    start->op.erase();

    Region &otherwise = wider.getExact();
    b.setInsertionPointToStart(wider.getExactBlock());
    Value whole = scale(b, loc, state, pending, end.dim);
    state.replaceUsesWithIf(whole, [&](OpOperand &use) {
      return otherwise.isAncestor(use.getOwner()->getParentRegion()) &&
             use.getOwner() != whole.getDefiningOp();
    });

    b.setInsertionPointAfter(loop);
    Value result = loop.getResult(number);
    if (!result.use_empty()) {
      Value final = scale(b, loc, result, loop.getResults().back(), end.dim);
      result.replaceAllUsesExcept(final, final.getDefiningOp());
    }
  }

private:
  /// Adds the pending exponent to the branch's results. The exact path leaves none pending.
  GuardedOp widen(OpBuilder &b, Value none) {
    GuardedOp wider = branch.addResults(b, none.getType());
    unsigned last = wider.getNumResults() - 1;
    wider.getFastYield()->setOperand(resultNumber, end.tile);
    wider.getFastYield()->insertOperands(last, end.exponent);
    wider.getExactYield()->insertOperands(last, none);
    end.op.erase();
    return wider;
  }

  scf::ForOp loop;
  unsigned number, resultNumber = 0;
  GuardedOp branch;
  RangeGuardOp check;
  Scaling end;
  std::optional<Scaling> start;
};

struct DeferStateScalingPass : ejk::impl::DeferStateScalingBase<DeferStateScalingPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](ProgramOp program) {
      // Two programs that share saved states have different m and v, and would not take the fast
      // path for the same chunks. `ejk-select-schedule` finds out what a program needs while the
      // other one is still a scan.
      auto hasReads = [](Value saved) {
        if (auto scan = saved.getDefiningOp<ScanOp>())
          return !scan.getOutputs().empty();
        auto maker = saved.getDefiningOp<ProgramOp>();
        auto hasState = [](scf::ForOp chunks) { return !chunks.getInits().empty(); };
        return maker && !maker.getOutputs().empty() &&
               llvm::any_of(maker.getBlock().getOps<scf::ForOp>(), hasState);
      };
      bool isAlone =
          program.getSaves().empty() && llvm::none_of(program.getSavedStates(), hasReads);
      if (!program->hasAttr(kWarpsAttr) && isAlone)
        llvm::append_range(loops, program.getBlock().getOps<scf::ForOp>());
    });
    for (scf::ForOp loop : loops)
      for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number)
        if (StateScaling carrier(loop, number); carrier.find()) {
          auto program = loop->getParentOfType<ProgramOp>();
          carrier.run();
          ++numCarried;
          // Erase the exponentials that are now unused.
          program.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
            if (isa<math::ExpOp, BroadcastOp>(op) && isOpTriviallyDead(op))
              op->erase();
          });
          break; // the loop was replaced
        }
  }
};
} // namespace
