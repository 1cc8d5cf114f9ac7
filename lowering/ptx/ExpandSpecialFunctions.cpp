//===- ExpandSpecialFunctions.cpp - by the special function unit ----------===//
#include "lowering/ptx/MathExpansions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/FloatBounds.h"

using namespace mlir;
using namespace ejk;

/// log2 e in two parts, each a number of f32.
static constexpr double kLog2E = 0x1.715476p+0, kLog2ELow = 0x1.4ae0cp-26;

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

/// x / y of 1 ≤ y ≤ 2^60: as IEEE rounds it where the quotient is normal, unless it is nearly half way
/// between two numbers. `isPlain` where x is not negative, nor infinite.
static Number quotient(FloatBuilder &m, Number x, Number y, bool isPlain) {
  Number r = callEach(m, "llvm.nvvm.rcp.approx.ftz.f", {y});
  Number q = x * r, residual = m.fma(-y, q, x), sum = m.fma(residual, r, q);
  // Without a residual the sum would lose the sign of -0; that of infinity is NaN.
  return isPlain ? sum : m.select(m.greater(m.abs(residual), m.f(0)), sum, q);
}

void ejk::expandQuotients(Operation *root) {
  FloatBounds bounds;
  SmallVector<std::pair<arith::DivFOp, bool>> quotients;
  root->walk([&](arith::DivFOp op) {
    Bounds x = bounds.of(op.getLhs()), y = bounds.of(op.getRhs());
    // By a constant it may be a multiplication.
    if (getElementTypeOrSelf(op.getType()).isF32() && y.least >= 1 && y.most <= 0x1p60 &&
        y.least < y.most)
      quotients.push_back({op, x.least >= 0 && x.most < 0x1p127});
  });
  for (auto [op, isPlain] : quotients) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    FloatBuilder m(b, op.getType());
    op.replaceAllUsesWith(quotient(m, m.at(op.getLhs()), m.at(op.getRhs()), isPlain).value);
    op.erase();
  }
}
