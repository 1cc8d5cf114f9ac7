//===- TileExponentials.cpp - e^x and 2^x in kernels -----------------------===//
//
// Emits exponentials, either by `ex2.approx` on the special function unit or by a
// polynomial on the FMA pipes. ejk-split-exponentials decides how many elements use
// the polynomial, so that both units work at the same time.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

Value TileEmitter::forPowersOfTwo(Value x) {
  return b.make<arith::MulFOp>(x, b.f32(llvm::numbers::log2e));
}

/// By `ex2.approx`, whose relative error is about 2^-22.
Value TileEmitter::exponential(Operation *op, Value x) {
  if (isa<math::ExpOp>(op)) {
    auto negated = isLong ? x.getDefiningOp<arith::NegFOp>() : arith::NegFOp();
    x = forPowersOfTwo(negated ? negated.getOperand() : x);
    if (negated)
      x = b.make<arith::NegFOp>(x);
  }
  return b
      .make<LLVM::CallIntrinsicOp>(b.getF32Type(), b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f"),
                                   ValueRange{x})
      .getResult(0);
}

/// e^x without the special function unit, for |x| ≤ range::kNormalNats: 2^n · 2^f with integer n
/// and |f| ≤ ½, where 2^f is an even plus an odd polynomial. e^-x is 2^-n · 2^-f with the same
/// polynomials, so it costs two more instructions after common subexpression elimination. The
/// relative error is at most 2.8e-6, or 4.1e-6 at the ends of the range, because log2 e is rounded.
Value TileEmitter::exponentialByPolynomial(Value x) {
  auto fma = [&](Value a, Value c, Value d) -> Value { return b.make<math::FmaOp>(a, c, d); };
  auto bits = [&](Value f) -> Value { return b.make<arith::BitcastOp>(b.getI32Type(), f); };
  auto negated = x.getDefiningOp<arith::NegFOp>();
  if (negated)
    x = negated.getOperand();
  Value log2e = b.f32(llvm::numbers::log2e);
  // At this magnitude one unit in the last place is 1, so the addition rounds to an integer.
  Value large = b.f32(3 << 22);
  Value shifted = fma(x, log2e, large);
  Value whole = b.make<arith::SubFOp>(shifted, large);
  Value rest = fma(x, log2e, b.make<arith::NegFOp>(whole).getResult());
  Value square = b.make<arith::MulFOp>(rest, rest);
  Value even = fma(square, fma(square, b.f32(9.5828575e-3), b.f32(0.24024099)), b.f32(1));
  Value odd = fma(square, b.f32(5.5906436e-2), b.f32(0.69312419));
  Value signedRest = negated ? b.make<arith::NegFOp>(rest).getResult() : rest;
  Value power = bits(fma(signedRest, odd, even));
  constexpr unsigned kExponent = 23;
  Value exponent = b.make<arith::ShLIOp>(bits(shifted), b.i32(kExponent));
  Value scaled = negated ? b.sub(power, exponent) : b.add(power, exponent);
  return b.make<arith::BitcastOp>(b.getF32Type(), scaled);
}

SmallVector<Value> TileEmitter::exponentials(Operation *op, ArrayRef<Value> x, unsigned count) {
  auto oneIn = op->getAttrOfType<IntegerAttr>(kPolynomialAttr);
  SmallVector<Value> result;
  for (unsigned i = 0; i < count; ++i) {
    Value own = x.size() == 1 ? x[0] : x[i];
    result.push_back(oneIn && i % oneIn.getInt() == 0 ? exponentialByPolynomial(own)
                                                      : exponential(op, own));
  }
  return result;
}
