//===- ExpandLogarithms.cpp - log, asinh, acosh, atanh in f32 -------------===//
#include "lowering/ptx/MathExpansions.h"

using namespace mlir;
using namespace ejk;

SplitFloat ejk::splitFloat(FloatBuilder &m, Number x) {
  Number bits = m.bits(x);
  Number exponent = (bits - m.i(0x3f2aaaab)) & m.i(int32_t(0xff800000));
  Number fraction = m.fromBits(bits - exponent) - m.f(1);
  return {m.shiftSigned(exponent, m.i(23)), fraction};
}

namespace {
/// A logarithm's base as ln 2 and ln e in it, each in two parts.
struct Base {
  double ln2, ln2Low, one, oneLow;
};
} // namespace

static constexpr Base kNatural = {0x1.62e43p-1, -0x1.05c61p-29, 1, 0};
static constexpr Base kBinary = {1, 0, 0x1.715476p+0, 0x1.4ae0cp-26};
static constexpr Base kDecimal = {0x1.344136p-2, -0x1.ec10cp-27, 0x1.bcb7b2p-2, -0x1.5b235ep-27};

/// The logarithm of 2^exponent · (1 + f), −1/3 ≤ f < 1/3.
static Number logarithm(FloatBuilder &m, Number exponent, Number f, Base base) {
  // ln(1 + f) = f − f²/2 + f³·P(f).
  static constexpr double coefficients[] = {
      -0.5,
      0.33333224058151245,
      -0.24999688565731049,
      0.20010033249855042,
      -0.16685473918914795,
      0.14011076092720032,
      -0.1211501732468605,
      0.13961747288703918,
      -0.1319211721420288,
  };
  Number small = m.polynomial(f, coefficients) * f * f;
  if (base.one != 1)
    small = m.fma(small, m.f(base.one), f * m.f(base.oneLow));
  if (base.ln2Low != 0)
    small = m.fma(exponent, m.f(base.ln2Low), small);
  Number sum = base.one == 1 ? f + small : m.fma(f, m.f(base.one), small);
  return m.fma(exponent, m.f(base.ln2), sum);
}

/// The logarithm of any x.
static Number logarithm(FloatBuilder &m, Number x, Base base) {
  Number isDenormal = m.less(x, m.f(0x1p-126));
  auto [exponent, fraction] = splitFloat(m, m.select(isDenormal, x * m.f(0x1p23), x));
  exponent = m.select(isDenormal, exponent - m.i(23), exponent);
  Number result = logarithm(m, m.toFloat(exponent), fraction, base);
  // Infinity and NaN are their own.
  Number isOrdinary = m.less(m.abs(x), m.infinity());
  result = m.select(isOrdinary, result, x);
  result = m.select(m.less(x, m.f(0)), m.nan(), result);
  return m.select(m.equal(x, m.f(0)), -m.infinity(), result);
}

/// ln(1 + x) of any x, whose bits that 1 + x would lose count.
static Number logOnePlus(FloatBuilder &m, Number x) {
  Number one = m.f(1), exponent = m.bits(x + one) - m.i(0x3f2aaaab);
  exponent = exponent & m.i(int32_t(0xff800000));
  // 4·2^−exponent is normal for each exponent.
  Number scale = m.fromBits(m.i(0x40800000) - exponent);
  // x·2^−exponent; the exponent is 0 for each x below 1/3.
  Number scaled = m.fromBits(m.bits(x) - exponent);
  Number fraction = scaled + m.fma(scale, m.f(0.25), -one);
  Number result = logarithm(m, m.toFloat(m.shiftSigned(exponent, m.i(23))), fraction, kNatural);
  result = m.select(m.less(m.abs(x), m.infinity()), result, x);
  result = m.select(m.less(x, -one), m.nan(), result);
  result = m.select(m.equal(x, -one), -m.infinity(), result);
  return m.select(m.equal(x, m.f(0)), x, result);
}

template <const Base &base> static Number expandLog(FloatBuilder &m, ArrayRef<Number> x) {
  return logarithm(m, x[0], base);
}

static Number expandLog1p(FloatBuilder &m, ArrayRef<Number> x) { return logOnePlus(m, x[0]); }

/// From here on x² swallows 1.
static constexpr double kLarge = 0x1p13;

/// ln(2x) of large x.
static Number logOfTwice(FloatBuilder &m, Number x) {
  return logarithm(m, x, kNatural) + m.f(M_LN2);
}

// ln(x + √(x² + 1)) = ln(1 + (x + x² / (1 + √(x² + 1)))) of x ≥ 0, and asinh is odd.
static Number expandAsinh(FloatBuilder &m, ArrayRef<Number> x) {
  Number size = m.abs(x[0]), square = size * size, one = m.f(1);
  Number near = logOnePlus(m, size + square / (one + m.sqrt(square + one)));
  return m.copySign(m.select(m.greater(size, m.f(kLarge)), logOfTwice(m, size), near), x[0]);
}

// ln(x + √(x² − 1)) = ln(1 + (t + √(t² + 2t))) with t = x − 1.
static Number expandAcosh(FloatBuilder &m, ArrayRef<Number> x) {
  Number t = x[0] - m.f(1);
  Number near = logOnePlus(m, t + m.sqrt(m.fma(t, t, t + t)));
  Number result = m.select(m.greater(x[0], m.f(kLarge)), logOfTwice(m, x[0]), near);
  return m.select(m.less(x[0], m.f(1)), m.nan(), result);
}

// ln((1 + x) / (1 − x)) / 2 = ln(1 + 2x / (1 − x)) / 2 of x ≥ 0, and atanh is odd.
static Number expandAtanh(FloatBuilder &m, ArrayRef<Number> x) {
  Number size = m.abs(x[0]);
  Number twice = logOnePlus(m, (size + size) / (m.f(1) - size));
  return m.copySign(twice * m.f(0.5), x[0]);
}

void ejk::populateLogarithmExpansions(RewritePatternSet &patterns) {
  addExpansion<math::LogOp>(patterns, expandLog<kNatural>);
  addExpansion<math::Log2Op>(patterns, expandLog<kBinary>);
  addExpansion<math::Log10Op>(patterns, expandLog<kDecimal>);
  addExpansion<math::Log1pOp>(patterns, expandLog1p);
  addExpansion<math::AsinhOp>(patterns, expandAsinh);
  addExpansion<math::AcoshOp>(patterns, expandAcosh);
  addExpansion<math::AtanhOp>(patterns, expandAtanh);
}
