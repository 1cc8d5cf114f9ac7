//===- SplitExponentials.cpp - exponentials on SFU and FMA -----------------===//
//
// Computes a third of the exponentials by a polynomial on the FMA pipes, while the
// special function unit computes the rest. The polynomial is valid only within a range,
// so all uses of such an exponential must be guarded by a range guard.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/NumericRange.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITEXPONENTIALS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// Follows a tile to its uses.
class Uses {
public:
  /// Whether all transitive uses of `value` lie on fast paths behind `guard`. If loops
  /// or branches carry the value, they must carry the guard the same way.
  bool areGuarded(Value value, Value guard) {
    if (!seen.insert({value, guard}).second)
      return true;
    return llvm::all_of(value.getUses(), [&](OpOperand &use) { return isGuarded(use, guard); });
  }

private:
  bool isGuarded(OpOperand &use, Value guard) {
    Operation *user = use.getOwner();
    if (isOnFastPath(user, guard))
      return true;
    if (auto loop = dyn_cast<scf::ForOp>(user))
      return isGuardedStart(loop, use, guard);
    if (isa<scf::YieldOp, tile::YieldOp>(user))
      return isGuardedYield(user, use, guard);
    // Other terminators pass the value on to unknown users.
    return isPure(user) && !user->hasTrait<OpTrait::IsTerminator>() &&
           llvm::all_of(user->getResults(),
                        [&](Value result) { return areGuarded(result, guard); });
  }

  static bool isOnFastPath(Operation *user, Value guard) {
    for (Operation *op = user; auto paths = op->getParentOfType<GuardedOp>(); op = paths)
      if (paths.getGuard() == guard && paths.getFast().isAncestor(user->getParentRegion()))
        return true;
    return false;
  }

  bool isGuardedStart(scf::ForOp loop, OpOperand &use, Value guard) {
    auto starts = loop.getInits();
    auto found = llvm::find(starts, guard);
    unsigned bounds = loop.getNumControlOperands();
    return use.getOperandNumber() >= bounds && found != starts.end() &&
           isCarried(loop, use.getOperandNumber() - bounds, found - starts.begin());
  }

  bool isGuardedYield(Operation *yield, OpOperand &use, Value guard) {
    auto found = llvm::find(yield->getOperands(), guard);
    if (found == yield->operand_end())
      return false;
    unsigned number = use.getOperandNumber(), own = found - yield->operand_begin();
    Operation *parent = yield->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      return isCarried(loop, number, own);
    return Branch::is(parent) && areGuarded(parent->getResult(number), parent->getResult(own));
  }

  bool isCarried(scf::ForOp loop, unsigned number, unsigned guard) {
    return areGuarded(loop.getRegionIterArg(number), loop.getRegionIterArg(guard)) &&
           areGuarded(loop.getResult(number), loop.getResult(guard));
  }

  DenseSet<std::pair<Value, Value>> seen;
};

struct SplitExponentialsPass : ejk::impl::SplitExponentialsBase<SplitExponentialsPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpgroupsAttr))
        program.walk([&](arith::NegFOp negated) { share(negated); });
    });
  }

  /// Marks the exponentials e^x and e^-x, where `negated` is -x.
  void share(arith::NegFOp negated) {
    auto type = dyn_cast<VectorType>(negated.getType());
    if (!type || type.getRank() != 2 || !type.getElementType().isF32() ||
        !isFragments(layoutOf(negated)) || !followsMatmuls(negated))
      return;
    SmallVector<math::ExpOp> positive = exponentialsOf(negated.getOperand(), negated),
                             negative = exponentialsOf(negated, negated);
    if (positive.empty() || negative.empty())
      return;
    for (Operation *user : negated.getOperand().getUsers()) {
      auto check = dyn_cast<RangeGuardOp>(user);
      if (!check || check.getBound().convertToDouble() > range::kNormalNats)
        continue;
      auto isGuarded = [&](math::ExpOp exp) { return Uses().areGuarded(exp, check); };
      if (llvm::all_of(positive, isGuarded) && llvm::all_of(negative, isGuarded)) {
        for (math::ExpOp exp : llvm::concat<math::ExpOp>(positive, negative))
          exp->setAttr(kPolynomialAttr,
                       Builder(&getContext()).getI64IntegerAttr(cost::kPolynomialOneIn));
        ++numShared;
        return;
      }
    }
  }

  static bool followsMatmuls(Operation *op) {
    return llvm::any_of(op->getBlock()->getOps<DotOp>(),
                        [&](DotOp dot) { return dot->isBeforeInBlock(op); });
  }

  /// The exponentials of `x` in the block of `place`.
  static SmallVector<math::ExpOp> exponentialsOf(Value x, Operation *place) {
    SmallVector<math::ExpOp> result;
    for (Operation *user : x.getUsers())
      if (auto exp = dyn_cast<math::ExpOp>(user); exp && exp->getBlock() == place->getBlock())
        result.push_back(exp);
    return result;
  }
};
} // namespace
