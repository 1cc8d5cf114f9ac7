//===- ExpandOthers.cpp - math ops of their own kind ----------------------===//
#include "lowering/ptx/MathExpansions.h"

using namespace mlir;
using namespace ejk;

static Number expandCbrt(FloatBuilder &m, ArrayRef<Number> x) {
  Number size = m.abs(x[0]), isSmall = m.less(size, m.f(1));
  // By a cube, so that nothing below is denormal or infinite.
  Number a = size * m.select(isSmall, m.f(0x1p24), m.f(0x1p-24));
  // A third of the exponent, to 4 %; Halley's step makes that some 2^-14, Newton's, with
  // the exact residual a − y³, an ulp.
  Number y = m.fromBits(m.bits(a) / m.i(3) + m.i(0x2a5119f2));
  Number cube = y * y * y;
  y = y * ((cube + (a + a)) / (cube + cube + a));
  Number square = y * y, lost = m.fma(y, y, -square);
  Number residual = m.fma(-lost, y, m.fma(-square, y, a));
  y = m.fma(residual, m.f(1) / (m.f(3) * square), y);
  y = y * m.select(isSmall, m.f(0x1p-8), m.f(0x1p8));
  // Zero, infinity and NaN are their own.
  Number isOrdinary = m.less(size, m.infinity()) & m.greater(size, m.f(0));
  return m.select(isOrdinary, m.copySign(y, x[0]), x[0]);
}

static Number expandClampF(FloatBuilder &m, ArrayRef<Number> x) {
  return m.minimum(m.maximum(x[0], x[1]), x[2]);
}

namespace {
/// What kind of number x is, by comparisons of its size; of 16 bits as f32.
template <typename Op> struct ExpandTest : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value x = op.getOperand();
    auto type = cast<FloatType>(getElementTypeOrSelf(x.getType()));
    APFloat smallest = APFloat::getSmallestNormalized(type.getFloatSemantics());
    APFloat infinity = APFloat::getInf(type.getFloatSemantics());
    if (type.getWidth() < 32) {
      type = rewriter.getF32Type();
      Type wide = type;
      if (auto shaped = dyn_cast<ShapedType>(x.getType()))
        wide = shaped.clone(wide);
      x = arith::ExtFOp::create(rewriter, loc, wide, x);
    }
    auto constant = [&](APFloat number) -> Value {
      bool isInexact;
      number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &isInexact);
      TypedAttr attr = rewriter.getFloatAttr(type, number);
      if (auto shaped = dyn_cast<ShapedType>(x.getType()))
        attr = DenseElementsAttr::get(shaped, Attribute(attr));
      return arith::ConstantOp::create(rewriter, loc, attr);
    };
    auto compare = [&](arith::CmpFPredicate how, Value a, Value b) -> Value {
      return arith::CmpFOp::create(rewriter, loc, how, a, b);
    };
    using P = arith::CmpFPredicate;
    if constexpr (std::is_same_v<Op, math::IsNaNOp>) {
      rewriter.replaceOp(op, compare(P::UNO, x, x));
      return success();
    }
    Value size = math::AbsFOp::create(rewriter, loc, x);
    Value result =
        compare(std::is_same_v<Op, math::IsInfOp> ? P::OEQ : P::OLT, size, constant(infinity));
    if (std::is_same_v<Op, math::IsNormalOp>)
      result =
          arith::AndIOp::create(rewriter, loc, result, compare(P::OGE, size, constant(smallest)));
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

void ejk::populateOtherExpansions(RewritePatternSet &patterns) {
  addExpansion<math::CbrtOp>(patterns, expandCbrt);
  addExpansion<math::ClampFOp>(patterns, expandClampF);
}

void ejk::populateTestExpansions(RewritePatternSet &patterns) {
  patterns.add<ExpandTest<math::IsNaNOp>, ExpandTest<math::IsInfOp>, ExpandTest<math::IsFiniteOp>,
               ExpandTest<math::IsNormalOp>>(patterns.getContext());
}
