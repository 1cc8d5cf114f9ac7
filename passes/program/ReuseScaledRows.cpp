//===- ReuseScaledRows.cpp - a row's own part of its scaled copy -----------===//
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"

namespace ejk {
#define GEN_PASS_DEF_REUSESCALEDROWS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The largest exponent, either way, whose power bf16 has with all its digits, of ordinary rows.
static constexpr double kMostExponent = 80;

static Value other(Operation *op, unsigned number) { return op->getOperand(1 - number); }

/// The exponent of e^x; null where `factor` is none.
static Value exponentOf(Value factor) {
  auto exp = factor.getDefiningOp<math::ExpOp>();
  return exp ? exp.getOperand() : Value();
}

static bool isNegated(Value x, Value y) {
  auto negated = x.getDefiningOp<arith::NegFOp>();
  return negated && negated.getOperand() == y;
}

/// The 16-bit tile that was loaded and is widened here; null where there is none.
static Value loadedRows(Value value) {
  auto widened = value.getDefiningOp<arith::ExtFOp>();
  return widened && widened.getIn().getDefiningOp<LoadOp>() ? widened.getIn() : Value();
}

namespace {
/// Of one branch, where the range of the gates' sums is known.
class Reuser {
public:
  explicit Reuser(scf::IfOp branch) : branch(branch) {}

  unsigned run() {
    unsigned count = 0;
    check = branch.getCondition().getDefiningOp<WithinOp>();
    if (check && check.getBound().convertToDouble() <= kMostExponent)
      for (auto sum : llvm::to_vector(branch.thenBlock()->getOps<arith::AddFOp>()))
        count += rewrite(sum, 0) || rewrite(sum, 1);
    return count;
  }

private:
  /// Whether operand `number` of `sum` is a product by loaded rows, the other one by a decay of
  /// whose inverse the rows' copy is.
  bool rewrite(arith::AddFOp sum, unsigned number) {
    auto own = sum->getOperand(number).getDefiningOp<arith::MulFOp>();
    if (!own || !own->hasOneUse())
      return false;
    for (unsigned i : {0, 1})
      if (Value rows = loadedRows(own->getOperand(i)))
        for (Operation *widened : rows.getUsers())
          for (Operation *scaling : widened->getUsers())
            if (tryCopy(sum, number, other(own, i), dyn_cast<arith::MulFOp>(scaling), widened))
              return true;
    return false;
  }

  /// With `scaling` of the `widened` rows as what is rounded to the copy.
  bool tryCopy(arith::AddFOp sum, unsigned number, Value factor, arith::MulFOp scaling,
               Operation *widened) {
    if (!scaling || !isa<arith::ExtFOp>(widened) || !scaling->hasOneUse())
      return false;
    auto copy = dyn_cast<arith::TruncFOp>(*scaling->user_begin());
    bool isSecond = scaling.getRhs() == widened->getResult(0);
    Value inverse = exponentOf(other(scaling, isSecond));
    // Other 16-bit types have not the range of what the check lets pass.
    if (!copy || copy->getBlock() != branch->getBlock() || !copy->isBeforeInBlock(branch) ||
        !inverse || !getElementTypeOrSelf(copy.getType()).isBF16())
      return false;
    SmallVector<Value> factors;
    collectFactors(other(sum, number), factors);
    Value *decay = llvm::find_if(factors, [&](Value f) {
      Value x = exponentOf(f);
      return x && isChecked(x, inverse) && (isNegated(x, inverse) || isNegated(inverse, x));
    });
    if (factors.size() < 2 || decay == factors.end())
      return false;
    OpBuilder b(sum);
    Location loc = sum.getLoc();
    Value scale = *decay, rest;
    factors.erase(decay);
    for (Value f : factors)
      rest = rest ? arith::MulFOp::create(b, loc, rest, f).getResult() : f;
    Value wide = arith::ExtFOp::create(b, loc, sum.getType(), copy.getResult());
    Value inside = arith::AddFOp::create(b, loc, rest, arith::MulFOp::create(b, loc, wide, factor));
    sum.replaceAllUsesWith(arith::MulFOp::create(b, loc, inside, scale).getResult());
    return true;
  }

  bool isChecked(Value x, Value y) {
    return llvm::is_contained(check.getTiles(), x) || llvm::is_contained(check.getTiles(), y);
  }

  /// What is multiplied to `product` alone.
  static void collectFactors(Value product, SmallVector<Value> &factors) {
    auto op = product.getDefiningOp<arith::MulFOp>();
    if (!op || !op->hasOneUse())
      return factors.push_back(product);
    collectFactors(op.getLhs(), factors);
    collectFactors(op.getRhs(), factors);
  }

  scf::IfOp branch;
  WithinOp check;
};

struct ReuseScaledRowsPass : ejk::impl::ReuseScaledRowsBase<ReuseScaledRowsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return; // it is laid out
      program.walk([&](scf::IfOp branch) { numReused += Reuser(branch).run(); });
      // What the sums were made of.
      IRRewriter rewriter(&getContext());
      (void)runRegionDCE(rewriter, program->getRegions());
    });
  }
};
} // namespace
