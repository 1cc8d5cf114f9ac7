//===- ReuseScaledRows.cpp - diagonal terms from scaled rows ---------------===//
//
// The diagonal term of a chunk multiplies rows x by a decay e^d. The chunk's matmul
// operand is already e^-d · x in bf16, so (e^-d · x) · e^d gives the same term, and the
// rows x need not be live in registers beside it.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "passes/NumericRange.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"

namespace ejk {
#define GEN_PASS_DEF_REUSESCALEDROWS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static Value other(Operation *op, unsigned number) { return op->getOperand(1 - number); }

/// x if `value` is e^x, otherwise null.
static Value exponentOf(Value value) {
  auto exp = value.getDefiningOp<math::ExpOp>();
  return exp ? exp.getOperand() : Value();
}

static bool isNegated(Value x, Value y) {
  auto negated = x.getDefiningOp<arith::NegFOp>();
  return negated && negated.getOperand() == y;
}

/// The loaded 16-bit tile that `value` widens; null if it widens none.
static Value loadedRows(Value value) {
  auto widened = value.getDefiningOp<arith::ExtFOp>();
  return widened && widened.getIn().getDefiningOp<LoadOp>() ? widened.getIn() : Value();
}

namespace {
/// Rewrites the fast path of one branch, where the range of the gates' cumsums is known.
class Reuser {
public:
  explicit Reuser(GuardedOp branch) : branch(branch) {}

  unsigned run() {
    unsigned count = 0;
    check = branch.getGuard().getDefiningOp<RangeGuardOp>();
    if (check && check.getBound().convertToDouble() <= range::kScaledRowNats)
      for (auto sum : llvm::to_vector(branch.getFastBlock()->getOps<arith::AddFOp>()))
        count += rewrite(sum, 0) || rewrite(sum, 1);
    return count;
  }

private:
  /// Rewrites `sum` if operand `number` is a multiple of loaded rows, and the other operand is a
  /// multiple of the decay whose inverse the rows were scaled by.
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

  /// Tries the copy of the rows that is `scaling` of `widened`, rounded.
  bool tryCopy(arith::AddFOp sum, unsigned number, Value factor, arith::MulFOp scaling,
               Operation *widened) {
    if (!scaling || !isa<arith::ExtFOp>(widened) || !scaling->hasOneUse())
      return false;
    auto copy = dyn_cast<arith::TruncFOp>(*scaling->user_begin());
    bool isSecond = scaling.getRhs() == widened->getResult(0);
    Value inverse = exponentOf(other(scaling, isSecond));
    // f16 lacks the range that the guard admits.
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

  /// The operands of the chain of multiplications that computes `value`, through single uses.
  static void collectFactors(Value value, SmallVector<Value> &factors) {
    auto op = value.getDefiningOp<arith::MulFOp>();
    if (!op || !op->hasOneUse())
      return factors.push_back(value);
    collectFactors(op.getLhs(), factors);
    collectFactors(op.getRhs(), factors);
  }

  GuardedOp branch;
  RangeGuardOp check;
};

struct ReuseScaledRowsPass : ejk::impl::ReuseScaledRowsBase<ReuseScaledRowsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return; // laid out already
      program.walk([&](GuardedOp branch) { numReused += Reuser(branch).run(); });
      // Erase operands that became unused.
      IRRewriter rewriter(&getContext());
      (void)runRegionDCE(rewriter, program->getRegions());
    });
  }
};
} // namespace
