//===- ReuseExponentials.cpp - one matrix of decays for two ----------------===//
//
// A delta rule's chunk has two matrices of decays: the one of its system lies strictly below the diagonal,
// and the one of what its outputs read has the diagonal, and a scale as an addend of its exponents:
//
//   exp2(mask strict (x − y) else −∞)          exp2(mask (x + c − y) else −∞)
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"
#include <cmath>
#include <limits>

namespace ejk {
#define GEN_PASS_DEF_REUSEEXPONENTIALS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// exp2(mask (x − y) else −∞), where x spreads `vector` + `addend`.
struct Exponential {
  math::Exp2Op op;
  MaskOp mask;
  BroadcastOp x;
  Value y, vector;
  double addend = 0;

  static std::optional<Exponential> of(math::Exp2Op op) {
    Exponential e{op, op.getOperand().getDefiningOp<MaskOp>(), {}, {}, {}};
    if (!e.mask || !e.mask.getOtherwise().isInfinity() || !e.mask.getOtherwise().isNegative())
      return {};
    auto difference = e.mask.getTile().getDefiningOp<arith::SubFOp>();
    e.x = difference ? difference.getLhs().getDefiningOp<BroadcastOp>() : BroadcastOp();
    if (!e.x)
      return {};
    e.y = difference.getRhs();
    e.vector = e.x.getVector();
    DenseElementsAttr constant;
    if (auto sum = e.vector.getDefiningOp<arith::AddFOp>();
        sum && matchPattern(sum.getRhs(), m_Constant(&constant)) && constant.isSplat()) {
      e.vector = sum.getLhs();
      e.addend = constant.getSplatValue<APFloat>().convertToDouble();
    }
    // The factor has to be a normal f32: masked elements, which are 0, times infinity would be NaN.
    if (!(std::abs(e.addend) < 126))
      return {};
    return e;
  }

  bool isLike(Exponential other) {
    return vector == other.vector && y == other.y && x.getDim() == other.x.getDim() &&
           op.getType() == other.op.getType() && mask.getUpper() == other.mask.getUpper();
  }
};
} // namespace

/// Whether the elements that a strict mask leaves out reach another strict mask through products alone.
static bool isMaskedLater(Value value, MaskOp like) {
  if (!value.hasOneUse())
    return false;
  Operation *user = *value.user_begin();
  if (auto mask = dyn_cast<MaskOp>(user))
    return mask.getStrict() && mask.getUpper() == like.getUpper();
  return isa<arith::MulFOp>(user) && isMaskedLater(user->getResult(0), like);
}

/// Replaces both exponentials by what follows from one, which stands where the first of them does.
/// That one alone stays live: products with the others follow from its product. Returns it.
static math::Exp2Op share(Exponential first, Exponential second) {
  bool isFirstPlain = first.addend == 0;
  Exponential plain = isFirstPlain ? first : second;
  OpBuilder b(first.op);
  Location loc = first.op.getLoc();
  auto type = cast<VectorType>(first.op.getType());
  bool isUpper = first.mask.getUpper();
  auto masked = [&](Value tile, float otherwise, bool strict) -> Value {
    auto flag = [&](bool set) { return set ? b.getUnitAttr() : UnitAttr(); };
    return MaskOp::create(b, loc, type, tile, b.getF32FloatAttr(otherwise), flag(isUpper),
                          flag(strict));
  };
  bool isStrict = first.mask.getStrict() && second.mask.getStrict();
  Value spread = BroadcastOp::create(b, loc, type, plain.vector, plain.x.getDimAttr());
  Value exponent = arith::SubFOp::create(b, loc, spread, first.y);
  float least = -std::numeric_limits<float>::infinity();
  auto shared = math::Exp2Op::create(b, loc, masked(exponent, least, isStrict));
  for (Exponential one : {first, second}) {
    bool leavesOut = one.mask.getStrict() && !isStrict && !isMaskedLater(one.op, one.mask);
    // What `one` multiplies, or `one` itself, of the same with the shared exponential.
    auto ownOf = [&](Value own) {
      if (one.addend != 0) {
        auto factor = DenseElementsAttr::get(type, float(std::exp2(one.addend)));
        own = arith::MulFOp::create(b, loc, own, arith::ConstantOp::create(b, loc, factor));
      }
      return leavesOut ? masked(own, 0.0f, /*strict=*/true) : own;
    };
    for (Operation *user : llvm::make_early_inc_range(one.op->getUsers())) {
      auto product = dyn_cast<arith::MulFOp>(user);
      if (!product || product.getLhs() == product.getRhs())
        continue;
      b.setInsertionPoint(product);
      bool isLeft = product.getLhs() == one.op;
      Value other = isLeft ? product.getRhs() : product.getLhs();
      Value own = ownOf(arith::MulFOp::create(b, product.getLoc(), other, shared));
      product.replaceAllUsesWith(own);
      product.erase();
    }
    b.setInsertionPoint(one.op);
    if (!one.op->use_empty())
      one.op.replaceAllUsesWith(ownOf(shared));
    Operation *difference = one.mask.getTile().getDefiningOp();
    for (Operation *op : {one.op.getOperation(), one.mask.getOperation(), difference,
                          one.x.getOperation()})
      if (op->use_empty())
        op->erase();
  }
  return shared;
}

/// Shares exponentials of the ops of `block` itself.
static unsigned shareIn(Block &block) {
  SmallVector<Exponential> left;
  unsigned count = 0;
  for (auto op : llvm::to_vector(block.getOps<math::Exp2Op>())) {
    std::optional<Exponential> one = Exponential::of(op);
    if (!one)
      continue;
    auto *like = llvm::find_if(left, [&](Exponential &other) {
      return other.isLike(*one) && (other.addend == 0 || one->addend == 0);
    });
    if (like == left.end()) {
      left.push_back(*one);
      continue;
    }
    *like = *Exponential::of(share(*like, *one));
    ++count;
  }
  return count;
}

namespace {
struct ReuseExponentialsPass : ejk::impl::ReuseExponentialsBase<ReuseExponentialsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](Block *block) { numReused += shareIn(*block); });
  }
};
} // namespace
