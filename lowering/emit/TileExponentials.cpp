//===- TileExponentials.cpp - e^x and 2^x in kernels -----------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

Value TileEmitter::forPowersOfTwo(Value x) {
  return b.make<arith::MulFOp>(x, b.f32(llvm::numbers::log2e));
}

/// By the unit's own exponential of two: off by some 2^-22 of the result.
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

/// e^x without that unit, for |x| ≤ 87: 2^n · 2^f with n whole and |f| ≤ ½, and 2^f as an even and
/// an odd polynomial. 2^-n · 2^-f takes the same ones, so that e^-x costs two instructions more,
/// once common subexpressions are one. The polynomials are off by 2.8e-6 of the result at most, and
/// with log2 e rounded e^x is by 4.1e-6 at the range's ends.
Value TileEmitter::exponentialByPolynomial(Value x) {
  auto fma = [&](Value a, Value c, Value d) -> Value { return b.make<math::FmaOp>(a, c, d); };
  auto bits = [&](Value f) -> Value { return b.make<arith::BitcastOp>(b.getI32Type(), f); };
  auto negated = x.getDefiningOp<arith::NegFOp>();
  if (negated)
    x = negated.getOperand();
  Value log2e = b.f32(llvm::numbers::log2e);
  // Of a number so large the last bit is worth one.
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
