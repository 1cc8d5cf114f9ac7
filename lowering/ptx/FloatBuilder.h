//===- FloatBuilder.h - formulas on f32 numbers and vectors -------*- C++ -*-===//
//
// What the expansions of math ops are written with: numbers of f32, i32 or i64, or
// vectors of them, that are added and multiplied with C++'s operators. No op here may be
// reassociated or contracted, so error terms of a rounding are exact.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PTX_FLOATBUILDER_H
#define EJK_LOWERING_PTX_FLOATBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

namespace ejk {

/// A value with the builder that makes ops on it.
struct Number {
  mlir::Value value;
  mlir::ImplicitLocOpBuilder *b;

  bool isFloat() const {
    return mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(value.getType()));
  }
  template <typename FloatOp, typename IntOp> Number apply(Number other) const {
    return {isFloat() ? mlir::Value(FloatOp::create(*b, value, other.value))
                      : mlir::Value(IntOp::create(*b, value, other.value)),
            b};
  }
  template <typename Op> Number apply() const { return {Op::create(*b, value), b}; }
};

inline Number operator+(Number a, Number c) {
  return a.apply<mlir::arith::AddFOp, mlir::arith::AddIOp>(c);
}
inline Number operator-(Number a, Number c) {
  return a.apply<mlir::arith::SubFOp, mlir::arith::SubIOp>(c);
}
inline Number operator*(Number a, Number c) {
  return a.apply<mlir::arith::MulFOp, mlir::arith::MulIOp>(c);
}
inline Number operator/(Number a, Number c) {
  return a.apply<mlir::arith::DivFOp, mlir::arith::DivUIOp>(c);
}
inline Number operator-(Number a) { return a.apply<mlir::arith::NegFOp>(); }
inline Number operator&(Number a, Number c) {
  return {mlir::arith::AndIOp::create(*a.b, a.value, c.value), a.b};
}
inline Number operator|(Number a, Number c) {
  return {mlir::arith::OrIOp::create(*a.b, a.value, c.value), a.b};
}
inline Number operator^(Number a, Number c) {
  return {mlir::arith::XOrIOp::create(*a.b, a.value, c.value), a.b};
}
inline Number operator<<(Number a, Number c) {
  return {mlir::arith::ShLIOp::create(*a.b, a.value, c.value), a.b};
}

/// Builds on numbers shaped as one given value.
class FloatBuilder {
public:
  FloatBuilder(mlir::ImplicitLocOpBuilder &b, mlir::Type like) : b(b), like(like) {}

  mlir::Type typeOf(mlir::Type element) const {
    auto shaped = mlir::dyn_cast<mlir::ShapedType>(like);
    return shaped ? mlir::Type(shaped.clone(element)) : element;
  }
  mlir::Type f32() const { return typeOf(b.getF32Type()); }
  mlir::Type i32() const { return typeOf(b.getI32Type()); }
  mlir::Type i64() const { return typeOf(b.getI64Type()); }

  Number at(mlir::Value value) { return {value, &b}; }
  Number f(double x) { return constant(f32(), b.getF32FloatAttr(float(x))); }
  Number i(int32_t x) { return constant(i32(), b.getI32IntegerAttr(x)); }
  Number wide(int64_t x) { return constant(i64(), b.getI64IntegerAttr(x)); }
  Number infinity() { return f(std::numeric_limits<double>::infinity()); }
  Number nan() { return f(std::numeric_limits<double>::quiet_NaN()); }

  Number fma(Number x, Number y, Number z) {
    return at(mlir::math::FmaOp::create(b, x.value, y.value, z.value));
  }
  /// coefficients[0] + x·(coefficients[1] + x·(…)).
  Number polynomial(Number x, llvm::ArrayRef<double> coefficients) {
    Number sum = f(coefficients.back());
    for (double c : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, f(c));
    return sum;
  }
  Number abs(Number x) { return x.apply<mlir::math::AbsFOp>(); }
  Number sqrt(Number x) { return x.apply<mlir::math::SqrtOp>(); }
  Number trunc(Number x) { return x.apply<mlir::math::TruncOp>(); }
  Number copySign(Number size, Number sign) {
    return at(mlir::math::CopySignOp::create(b, size.value, sign.value));
  }
  Number minimum(Number x, Number y) {
    return at(mlir::arith::MinimumFOp::create(b, x.value, y.value));
  }
  Number maximum(Number x, Number y) {
    return at(mlir::arith::MaximumFOp::create(b, x.value, y.value));
  }

  Number bits(Number x) { return at(mlir::arith::BitcastOp::create(b, i32(), x.value)); }
  Number fromBits(Number x) { return at(mlir::arith::BitcastOp::create(b, f32(), x.value)); }
  Number toFloat(Number x) { return at(mlir::arith::SIToFPOp::create(b, f32(), x.value)); }
  Number extend(Number x) { return at(mlir::arith::ExtUIOp::create(b, i64(), x.value)); }
  Number narrow(Number x) { return at(mlir::arith::TruncIOp::create(b, i32(), x.value)); }
  Number shiftSigned(Number x, Number n) {
    return at(mlir::arith::ShRSIOp::create(b, x.value, n.value));
  }
  Number shiftUnsigned(Number x, Number n) {
    return at(mlir::arith::ShRUIOp::create(b, x.value, n.value));
  }

  Number compare(mlir::arith::CmpFPredicate how, Number x, Number y) {
    return at(mlir::arith::CmpFOp::create(b, how, x.value, y.value));
  }
  /// False where either is NaN.
  Number less(Number x, Number y) { return compare(mlir::arith::CmpFPredicate::OLT, x, y); }
  Number greater(Number x, Number y) { return compare(mlir::arith::CmpFPredicate::OGT, x, y); }
  Number equal(Number x, Number y) {
    return x.isFloat() ? compare(mlir::arith::CmpFPredicate::OEQ, x, y)
                       : at(mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::eq, x.value,
                                                        y.value));
  }
  Number isNegative(Number bits) {
    return at(
        mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::slt, bits.value, i(0).value));
  }
  Number isNaN(Number x) { return compare(mlir::arith::CmpFPredicate::UNO, x, x); }
  Number negate(Number condition) {
    mlir::Type type = condition.value.getType();
    return condition ^ constant(type, b.getBoolAttr(true));
  }
  Number select(Number condition, Number x, Number y) {
    return at(mlir::arith::SelectOp::create(b, condition.value, x.value, y.value));
  }

  /// The nearest integer, as a float and as an integer; |x| < 2²². Of NaN the integer is
  /// any.
  std::pair<Number, Number> nearest(Number x) {
    // Numbers near 1.5·2²³ are integers, and their last bits hold them.
    Number shift = f(0x1.8p23), shifted = x + shift;
    return {shifted - shift, bits(shifted) - i(0x4b400000)};
  }
  /// 2ⁿ for −126 ≤ n ≤ 127.
  Number powerOfTwo(Number n) { return fromBits((n + i(127)) << i(23)); }
  /// x·2ⁿ, rounded once; −252 ≤ n ≤ 254, and 2^−126 ≤ |x·2^⌊n/2⌋| < 2¹²⁸.
  Number scale(Number x, Number n) {
    Number half = shiftSigned(n, i(1));
    return x * powerOfTwo(half) * powerOfTwo(n - half);
  }

  mlir::ImplicitLocOpBuilder &b;

private:
  Number constant(mlir::Type type, mlir::TypedAttr element) {
    auto shaped = mlir::dyn_cast<mlir::ShapedType>(type);
    mlir::TypedAttr attr = element;
    if (shaped)
      attr = mlir::DenseElementsAttr::get(shaped, mlir::Attribute(element));
    return at(mlir::arith::ConstantOp::create(b, attr));
  }

  mlir::Type like;
};

/// The op as a formula of its operands, all f32.
template <typename Op> struct Expansion : mlir::OpRewritePattern<Op> {
  using Formula = Number (*)(FloatBuilder &, llvm::ArrayRef<Number> operands);
  Expansion(mlir::MLIRContext *context, Formula formula)
      // Before upstream's approximation of the same op.
      : mlir::OpRewritePattern<Op>(context, /*benefit=*/2), formula(formula) {}

  mlir::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    if (!mlir::getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "the expansion is of f32");
    mlir::ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatBuilder m(b, op.getType());
    auto operands = llvm::map_to_vector(op->getOperands(), [&](mlir::Value v) { return m.at(v); });
    rewriter.replaceOp(op, formula(m, operands).value);
    return mlir::success();
  }

  Formula formula;
};

template <typename Op>
void addExpansion(mlir::RewritePatternSet &patterns, typename Expansion<Op>::Formula formula) {
  patterns.add<Expansion<Op>>(patterns.getContext(), formula);
}

} // namespace ejk

#endif // EJK_LOWERING_PTX_FLOATBUILDER_H
