//===- ExpandPowers.cpp - powers and hyperbolic functions in f32 ----------===//
#include "lowering/ptx/MathExpansions.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

namespace {
/// high + low, where low is less than half of high's last bit, or not much more.
struct Pair {
  Number high, low;
};
} // namespace

/// x · (c + cLow), to twice the precision of f32.
static Pair times(FloatBuilder &m, Number x, double c, double cLow) {
  Number high = x * m.f(c);
  return {high, m.fma(x, m.f(cLow), m.fma(x, m.f(c), -high))};
}

/// 2^(x + 'shift'), denormals included; |x.high| may be anything.
static Number exponential(FloatBuilder &m, Pair x, int shift = 0) {
  // Past ±200 there are only infinity and zero.
  Number high = m.maximum(m.minimum(x.high, m.f(200)), m.f(-200));
  Number isInside = m.less(m.abs(x.high), m.f(200));
  auto [whole, exponent] = m.nearest(high);
  Number f = (high - whole) + m.select(isInside, x.low, m.f(0));
  // 2^f of |f| ≤ 1/2.
  static constexpr double coefficients[] = {1,
                                            0.6931471824645996,
                                            0.24022650718688965,
                                            0.05550406128168106,
                                            0.009618088603019714,
                                            0.0013336667325347662,
                                            0.00015451414219569415,
                                            1.4670755263068713e-05};
  return m.scale(m.polynomial(f, coefficients), exponent + m.i(shift));
}

static Number expandExp2(FloatBuilder &m, ArrayRef<Number> x) {
  return exponential(m, {x[0], m.f(0)});
}

/// 2ⁿ·(e^r − 1) + (2ⁿ − 1) with x = n·ln 2 + r, all of it halved, as 2¹²⁸ is no number.
static Number expandExpM1(FloatBuilder &m, ArrayRef<Number> operands) {
  // Past these bounds the result is −1 and infinity.
  Number x = m.maximum(m.minimum(operands[0], m.f(89)), m.f(-26));
  // Numbers near 1.5·2²³ are integers, and their last bits hold n + 126, the exponent of 2ⁿ⁻¹.
  Number shift = m.f(0x1.8p23 + 126), shifted = m.fma(x, m.f(kLog2E), shift), n = shifted - shift;
  Number half = m.fromBits(m.bits(shifted) << m.i(23));
  Number r = m.fma(n, m.f(0x1.05c61p-29), m.fma(n, m.f(-0x1.62e43p-1), x));
  // e^r − 1 = r + r²·Q(r) of |r| ≤ ln 2 / 2.
  Number q = m.polynomial(r, {0.5000000046182808, 0.16666666816779777, 0.041666355301753416,
                              0.008333273110355775, 0.0013940969587362753, 0.00019914140364375135});
  Number result = m.fma(m.fma(r * r, q, r), half, half - m.f(0.5));
  // A half of the smallest is none, and the sum of 0 and −0 is 0.
  Number isSmall = m.less(m.abs(operands[0]), m.f(0x1p-24));
  return m.select(isSmall, operands[0], result + result);
}

//===----------------------------------------------------------------------===//
// sinh, cosh
//===----------------------------------------------------------------------===//

/// Half of e^x, x ≥ 0, so that it is not infinite before sinh and cosh are.
static Number halfExponential(FloatBuilder &m, Number x) {
  return exponential(m, times(m, m.minimum(x, m.f(150)), kLog2E, kLog2ELow), -1);
}

static Number expandSinh(FloatBuilder &m, ArrayRef<Number> x) {
  Number size = m.abs(x[0]), half = halfExponential(m, size), s = size * size;
  // x + x·s·P(s) with s = x² below 1.
  Number near = m.fma(m.polynomial(s, {0.1666666716337204, 0.008333311416208744,
                                       0.00019842635083477944, 2.783925083349459e-06}) *
                          s,
                      size, size);
  Number far = half - m.f(0.25) / half;
  return m.copySign(m.select(m.greater(size, m.f(1)), far, near), x[0]);
}

static Number expandCosh(FloatBuilder &m, ArrayRef<Number> x) {
  Number half = halfExponential(m, m.abs(x[0]));
  return half + m.f(0.25) / half;
}

//===----------------------------------------------------------------------===//
// powf, fpowi
//===----------------------------------------------------------------------===//

/// The binary logarithm of a finite x > 0, to some 2^-32 of itself.
static Pair binaryLogarithm(FloatBuilder &m, Number x) {
  Number isDenormal = m.less(x, m.f(0x1p-126));
  auto [exponent, f] = splitFloat(m, m.select(isDenormal, x * m.f(0x1p23), x));
  exponent = m.select(isDenormal, exponent - m.i(23), exponent);
  // ln(1 + f) = 2·artanh(v/2) = v + v³·P(v²) with v = 2f / (2 + f), in two parts.
  Number divisor = f + m.f(2), v = (f + f) / divisor;
  Number error = m.fma(-v, f, m.f(2) * (f - v)) / divisor;
  // The rest, v³/12 + v⁵·Q(v²), in two parts, too: it is some hundredth of v, and powers
  // multiply its errors by some hundred.
  Number s = v * v, cube = v * s;
  Number cubeLow = m.fma(v, m.fma(v, v, -s), m.fma(v, s, -cube));
  Number twelfth = m.f(0x1.555556p-4),
         q = s *
             m.polynomial(s, {0.01250012218952179, 0.002228566212579608, 0.00046625168761238456});
  Number p = twelfth + q, pLow = ((twelfth - p) + q) + m.f(-0x1.555556p-29);
  Number tail = cube * p;
  Number tailLow = m.fma(cubeLow, p, m.fma(cube, p, -tail)) + m.fma(cube, pLow, error);
  // What v has lost counts in v³, too.
  tailLow = m.fma(error * s, m.f(0.25), tailLow);
  Number high = v + tail, low = ((v - high) + tail) + tailLow;
  Pair product = times(m, high, kLog2E, kLog2ELow);
  low = m.fma(low, m.f(kLog2E), product.low);
  Number whole = m.toFloat(exponent), sum = whole + product.high;
  return {sum, ((whole - sum) + product.high) + low};
}

/// x^(y + yLow) of a positive finite x.
static Number powerOf(FloatBuilder &m, Number x, Number y, Number yLow) {
  Pair log = binaryLogarithm(m, x);
  Number high = y * log.high;
  Number low = m.fma(y, log.low, m.fma(yLow, log.high, m.fma(y, log.high, -high)));
  return exponential(m, {high, low});
}

/// The power of |x| for x = ±0, ±1 and ±∞, too; y is not 0.
static Number powerOfSize(FloatBuilder &m, Number x, Number y, Number yLow) {
  Number size = m.abs(x), isZero = m.equal(size, m.f(0));
  Number isInfinite = m.equal(size, m.infinity());
  Number result = powerOf(m, size, y, yLow);
  Number isRoot = m.less(y, m.f(0));
  result = m.select(isZero, m.select(isRoot, m.infinity(), m.f(0)), result);
  result = m.select(isInfinite, m.select(isRoot, m.f(0), m.infinity()), result);
  return m.select(m.equal(size, m.f(1)), m.f(1), result);
}

static Number general(FloatBuilder &m, Number x, Number y) {
  Number half = y * m.f(0.5);
  Number isInteger = m.equal(m.trunc(y), y), isEven = m.equal(m.trunc(half), half);
  Number result = powerOfSize(m, x, y, m.f(0));
  Number isBelow = m.isNegative(m.bits(x));
  result = m.select(isBelow & isInteger & m.negate(isEven), -result, result);
  // Of a finite negative x only integers are powers.
  Number hasNone = m.less(x, m.f(0)) & m.greater(x, -m.infinity()) & m.negate(isInteger);
  result = m.select(hasNone | m.compare(arith::CmpFPredicate::UNO, x, y), m.nan(), result);
  return m.select(m.equal(y, m.f(0)) | m.equal(x, m.f(1)), m.f(1), result);
}

static Number expandPowF(FloatBuilder &m, ArrayRef<Number> operands) {
  Number x = operands[0], y = operands[1], one = m.f(1);
  APFloat constant(APFloat::IEEEsingle());
  if (!matchPattern(y.value, m_ConstantFloat(&constant)))
    return general(m, x, y);
  float power = constant.convertToFloat();
  if (power == 0)
    return one;
  if (power == 1)
    return x;
  if (power == 2)
    return x * x;
  if (power == 3)
    return x * x * x;
  if (power == -1)
    return one / x;
  if (power == 0.5f)
    // The powers of −0 and −∞ are positive.
    return m.select(m.equal(x, -m.infinity()), m.infinity(), m.sqrt(x) + m.f(0));
  return general(m, x, y);
}

static Number expandFPowI(FloatBuilder &m, ArrayRef<Number> operands) {
  Number x = operands[0], n = operands[1];
  Type i32 = m.i32();
  unsigned width = getElementTypeOrSelf(n.value.getType()).getIntOrFloatBitWidth();
  if (width < 32)
    n = m.at(arith::ExtSIOp::create(m.b, i32, n.value));
  Number isOdd = m.equal(n & m.i(1), m.i(1));
  // To 24 bits and to the rest.
  Number large = n & m.i(~255);
  Number exact = m.toFloat(n), isExact = m.equal(n & m.i(255), m.i(0));
  Number isSmall = m.less(m.abs(exact), m.f(0x1p24)) | isExact;
  Number high = m.select(isSmall, exact, m.toFloat(large));
  Number low = m.select(isSmall, m.f(0), m.toFloat(n & m.i(255)));
  Number result = powerOfSize(m, x, high, low);
  result = m.select(m.isNegative(m.bits(x)) & isOdd, -result, result);
  result = m.select(m.isNaN(x), x, result);
  return m.select(m.equal(n, m.i(0)), m.f(1), result);
}

void ejk::populatePowerExpansions(RewritePatternSet &patterns) {
  addExpansion<math::Exp2Op>(patterns, expandExp2);
  addExpansion<math::ExpM1Op>(patterns, expandExpM1);
  addExpansion<math::SinhOp>(patterns, expandSinh);
  addExpansion<math::CoshOp>(patterns, expandCosh);
  addExpansion<math::PowFOp>(patterns, expandPowF);
  addExpansion<math::FPowIOp>(patterns, expandFPowI);
}
