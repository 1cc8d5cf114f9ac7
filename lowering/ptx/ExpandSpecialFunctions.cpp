//===- ExpandSpecialFunctions.cpp - by the special function unit ----------===//
#include "lowering/ptx/MathExpansions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/FloatBounds.h"

using namespace mlir;
using namespace ejk;

/// NVVM's intrinsic `name`, which takes scalars, for each element.
static Number callEach(FloatBuilder &m, StringRef name, ArrayRef<Number> operands) {
  OpBuilder &b = m.b;
  Location loc = m.b.getLoc();
  auto call = [&](ValueRange scalars) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(), b.getStringAttr(name), scalars)
        .getResult(0);
  };
  auto vector = dyn_cast<VectorType>(m.f32());
  if (!vector)
    return m.at(call(llvm::map_to_vector(operands, [](Number x) { return x.value; })));
  SmallVector<Operation::result_range> elements;
  for (Number x : operands)
    elements.push_back(vector::ToElementsOp::create(b, loc, x.value).getResults());
  SmallVector<Value> results;
  for (int64_t i = 0, e = vector.getNumElements(); i < e; ++i)
    results.push_back(
        call(llvm::map_to_vector(elements, [&](auto all) { return Value(all[i]); })));
  return m.at(vector::FromElementsOp::create(b, loc, vector, results));
}

/// 2^n · 2^f, where n is x·log2 e as an integer from -126 to 126, and f what is left of it. Where x is
/// past what n can be, f is large, and the product infinite, denormal or zero, as it should be. Of NaN
/// n is any, and f NaN.
static Number expandExp(FloatBuilder &m, ArrayRef<Number> operands) {
  Number x = operands[0];
  // From 0 to 1 for n from -126 to 126. Past that it stays there.
  Number place = callEach(m, "llvm.nvvm.fma.rn.sat.f", {x, m.f(kLog2E / 252), m.f(0.5)});
  // Numbers near 1.5·2²³ are integers, and their last bits hold n + 127.
  Number shifted = m.fma(place, m.f(252), m.f(0x1.8p23 + 1));
  Number whole = shifted - m.f(0x1.8p23 + 127);
  Number rest = m.fma(x, m.f(kLog2ELow), m.fma(x, m.f(kLog2E), -whole));
  Number power = callEach(m, "llvm.nvvm.ex2.approx.ftz.f", {rest});
  return power * m.fromBits(m.bits(shifted) << m.i(23));
}

static Number expandRsqrt(FloatBuilder &m, ArrayRef<Number> x) {
  return callEach(m, "llvm.nvvm.rsqrt.approx.f", x);
}

void ejk::populateSpecialFunctions(RewritePatternSet &patterns) {
  addExpansion<math::RsqrtOp>(patterns, expandRsqrt);
  addExpansion<math::ExpOp>(patterns, expandExp);
}

//===----------------------------------------------------------------------===//
// Within bounds
//===----------------------------------------------------------------------===//

/// Past this the reciprocal of a divisor may be denormal, which the unit takes for zero.
static constexpr double kLargeDivisor = 0x1p60;

/// x / y of y ≥ 1: as IEEE rounds it where the quotient is 2^-100 or larger, unless it is nearly
/// half way between two numbers.
static Number quotient(FloatBuilder &m, Number x, Number y, Bounds ofX, Bounds ofY) {
  bool mayBeLarge = ofY.most > kLargeDivisor;
  if (mayBeLarge && std::max(-ofX.least, ofX.most) > 0x1p24) {
    Number scale = m.select(m.greater(y, m.f(kLargeDivisor)), m.f(0x1p-64), m.f(1));
    x = x * scale;
    y = y * scale;
  }
  Number r = callEach(m, "llvm.nvvm.rcp.approx.ftz.f", {y});
  Number q = x * r, residual = m.fma(-y, q, x), sum = m.fma(residual, r, q);
  bool isPlain = ofX.least >= 0 && ofX.most < 0x1p127 && !mayBeLarge;
  // Without a residual the sum would lose the sign of -0; that of infinity is NaN.
  return isPlain ? sum : m.select(m.greater(m.abs(residual), m.f(0)), sum, q);
}

/// ln(1 + x) of 0 ≤ x ≤ 1, as x + x²·Q(x).
static Number logOnePlusFraction(FloatBuilder &m, Number x) {
  static constexpr double coefficients[] = {-0.49999647962979366, 0.33321322606145626,
                                            -0.24857163569083934, 0.19153654546932591,
                                            -0.13753801496519555, 0.0792045255489856,
                                            -0.030065786113609078, 0.005364822783933965};
  return m.fma(x * x, m.polynomial(x, coefficients), x);
}

void ejk::expandWithinBounds(Operation *root, bool specialFunctionUnit) {
  FloatBounds bounds;
  SmallVector<std::pair<Operation *, SmallVector<Bounds, 2>>> found;
  root->walk([&](Operation *op) {
    if (!isa<arith::DivFOp, math::Log1pOp>(op) ||
        !getElementTypeOrSelf(op->getResult(0).getType()).isF32())
      return;
    SmallVector<Bounds, 2> of =
        llvm::map_to_vector<2>(op->getOperands(), [&](Value x) { return bounds.of(x); });
    // By a constant, a quotient may be a multiplication.
    bool fits = isa<arith::DivFOp>(op)
                    ? specialFunctionUnit && of[1].least >= 1 && of[1].least < of[1].most
                    : of[0].least >= 0 && of[0].most <= 1;
    if (fits)
      found.push_back({op, of});
  });
  for (auto &[op, of] : found) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    FloatBuilder m(b, op->getResult(0).getType());
    Number x = m.at(op->getOperand(0));
    Number result = isa<arith::DivFOp>(op) ? quotient(m, x, m.at(op->getOperand(1)), of[0], of[1])
                                           : logOnePlusFraction(m, x);
    op->getResult(0).replaceAllUsesWith(result.value);
    op->erase();
  }
}
