//===- ExpandTrigonometry.cpp - sines, tangents and their inverses --------===//
#include "lowering/ptx/MathExpansions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <array>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Range reduction
//===----------------------------------------------------------------------===//

namespace {
/// x ≡ quadrant·π/2 + rest (mod 2π), |rest| ≤ π/4.
struct Reduced {
  Number quadrant, rest;
};
} // namespace

/// Up to here three parts of π/2 are enough.
static constexpr double kLargeAngle = 65536;

/// Of 0 ≤ x ≤ kLargeAngle: x minus a multiple of π/2 in three parts. The first FMA is exact.
static Reduced reduceSmall(FloatBuilder &m, Number x) {
  auto [k, quadrant] = m.nearest(x * m.f(M_2_PI));
  Number rest = m.fma(k, m.f(-0x1.921fb6p+0), x);
  rest = m.fma(k, m.f(0x1.777a5cp-25), rest);
  rest = m.fma(k, m.f(0x1.ee59dap-50), rest);
  return {quadrant, rest};
}

/// Of any x > 1, after Payne and Hanek: x is an integer times a power of two, so only 96 bits
/// of 2/π matter: those above make multiples of 4, those below less than f32 can tell.
static Reduced reduceLarge(FloatBuilder &m, Number x) {
  // A word of zeros before the bits of 2/π.
  static constexpr std::array<uint32_t, 8> words = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                                    0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  Number bits = m.bits(x);
  Number integer = m.extend((bits & m.i(0x7fffff)) | m.i(0x800000));
  // The first bit that matters is worth 2 in x·2/π.
  Number offset = m.shiftUnsigned(bits, m.i(23)) - m.i(120);
  Number word = m.shiftSigned(offset, m.i(5));
  Number shift = m.extend(offset & m.i(31)), half = m.wide(32), low = m.wide(0xffffffff);
  auto wordAt = [&](unsigned n) {
    Number result = m.wide(words[n]);
    for (unsigned w = 1; n + w < words.size() && w <= 4; ++w)
      result = m.select(m.equal(word, m.i(w)), m.wide(words[n + w]), result);
    return result;
  };
  Number first = wordAt(0), second = wordAt(1), third = wordAt(2), fourth = wordAt(3);
  Number upper = (((first << half) | second) << shift) | m.shiftUnsigned(third << shift, half);
  Number lower = m.shiftUnsigned(((third << half) | fourth) << shift, half) & low;
  // Modulo 4, in units of 2^-62.
  Number product = integer * upper + m.shiftUnsigned(integer * lower, half);
  Number quadrant = m.shiftUnsigned(product + m.wide(int64_t(1) << 61), m.wide(62));
  Number rest = product - (quadrant << m.wide(62));
  Type f64 = m.typeOf(m.b.getF64Type());
  auto unit = m.b.getF64FloatAttr(M_PI_2 * 0x1p-62);
  TypedAttr units = unit;
  if (auto shaped = dyn_cast<ShapedType>(f64))
    units = DenseElementsAttr::get(shaped, Attribute(unit));
  Value angle = arith::MulFOp::create(m.b, arith::SIToFPOp::create(m.b, f64, rest.value),
                                      arith::ConstantOp::create(m.b, units));
  // Infinity and NaN give NaN.
  return {m.narrow(quadrant), m.at(arith::TruncFOp::create(m.b, m.f32(), angle)) + (x - x)};
}

/// Of any x ≥ 0.
static Reduced reduce(FloatBuilder &m, Number x) {
  Reduced small = reduceSmall(m, x);
  Number isLarge = m.compare(arith::CmpFPredicate::UGT, x, m.f(kLargeAngle));
  Value anyLarge = isLarge.value;
  if (auto type = dyn_cast<VectorType>(anyLarge.getType())) {
    auto flat = VectorType::get({type.getNumElements()}, type.getElementType());
    if (flat != type)
      anyLarge = vector::ShapeCastOp::create(m.b, flat, anyLarge);
    anyLarge = vector::ReductionOp::create(m.b, vector::CombiningKind::OR, anyLarge);
  }
  auto branch = scf::IfOp::create(m.b, TypeRange{m.i32(), m.f32()}, anyLarge, true);
  {
    OpBuilder::InsertionGuard guard(m.b);
    m.b.setInsertionPointToStart(branch.thenBlock());
    Reduced large = reduceLarge(m, x);
    scf::YieldOp::create(m.b, ValueRange{m.select(isLarge, large.quadrant, small.quadrant).value,
                                         m.select(isLarge, large.rest, small.rest).value});
    m.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(m.b, ValueRange{small.quadrant.value, small.rest.value});
  }
  return {m.at(branch.getResult(0)), m.at(branch.getResult(1))};
}

//===----------------------------------------------------------------------===//
// sin, cos, tan
//===----------------------------------------------------------------------===//

// sin r = r + r·s·P(s) and cos r = 1 + s·Q(s) with s = r², |r| ≤ π/4.
static constexpr double kSine[] = {-0.1666666716337204, 0.008333380334079266,
                                   -0.00019853476260323077, 2.8368037874315633e-06};
static constexpr double kCosine[] = {-0.5, 0.04166664555668831, -0.00138873013202101,
                                     2.4430661142105237e-05};

/// The sine of the angle and of `turned` more quadrants, without its sign, and that sign.
static std::pair<Number, Number> sineOf(FloatBuilder &m, Reduced angle, int turned) {
  Number quadrant = angle.quadrant + m.i(turned), r = angle.rest, s = r * r;
  Number isCosine = m.equal(quadrant & m.i(1), m.i(1));
  auto coefficient = [&](unsigned n) { return m.select(isCosine, m.f(kCosine[n]), m.f(kSine[n])); };
  Number p = coefficient(3);
  for (unsigned n = 3; n-- > 0;)
    p = m.fma(p, s, coefficient(n));
  Number first = m.select(isCosine, m.f(1), r);
  return {m.fma(p * s, first, first), (quadrant & m.i(2)) << m.i(30)};
}

static constexpr int32_t kSign = std::numeric_limits<int32_t>::min();

static Number expandSin(FloatBuilder &m, ArrayRef<Number> x) {
  auto [size, flips] = sineOf(m, reduce(m, m.abs(x[0])), 0);
  return m.fromBits(m.bits(size) ^ flips ^ (m.bits(x[0]) & m.i(kSign)));
}

static Number expandCos(FloatBuilder &m, ArrayRef<Number> x) {
  auto [size, flips] = sineOf(m, reduce(m, m.abs(x[0])), 1);
  return m.fromBits(m.bits(size) ^ flips);
}

static Number expandTan(FloatBuilder &m, ArrayRef<Number> x) {
  Reduced angle = reduce(m, m.abs(x[0]));
  Number r = angle.rest, s = r * r;
  Number sine = m.fma(m.polynomial(s, kSine) * s, r, r);
  Number cosine = m.fma(m.polynomial(s, kCosine), s, m.f(1));
  Number isTurned = m.equal(angle.quadrant & m.i(1), m.i(1));
  Number quotient = m.select(isTurned, -cosine, sine) / m.select(isTurned, sine, cosine);
  return m.fromBits(m.bits(quotient) ^ (m.bits(x[0]) & m.i(kSign)));
}

//===----------------------------------------------------------------------===//
// asin, acos
//===----------------------------------------------------------------------===//

namespace {
/// Of |x| ≤ 9/16 the arc sine itself, of a larger |x| ≤ 1 half of the arc cosine of |x|, which
/// loses nothing near 1.
struct Arc {
  Number angle, isLarge;
};
} // namespace

static Arc arcOf(FloatBuilder &m, Number x) {
  Number size = m.abs(x), half = m.f(0.5);
  // Half an arc cosine below 1/2 loses half as much.
  Number isLarge = m.compare(arith::CmpFPredicate::UGT, size, m.f(0.5625));
  // arccos x = 2 arcsin √((1 − x) / 2).
  Number square = m.select(isLarge, m.fma(-size, half, half), size * size);
  Number t = m.select(isLarge, m.sqrt(square), size);
  // arcsin t = t + t·s·P(s) with s = t².
  static constexpr double coefficients[] = {
      0.16666670143604279,  0.07499720901250839,   0.04471690580248833, 0.029466643929481506,
      0.028285223990678787, -0.002770289545878768, 0.04585185647010803};
  return {m.fma(m.polynomial(square, coefficients) * square, t, t), isLarge};
}

static constexpr double kHalfPi = 0x1.921fb6p+0, kHalfPiLow = -0x1.777a5cp-25;

static Number expandAsin(FloatBuilder &m, ArrayRef<Number> x) {
  auto [angle, isLarge] = arcOf(m, x[0]);
  Number large = m.f(kHalfPi) + m.fma(angle, m.f(-2), m.f(kHalfPiLow));
  return m.copySign(m.select(isLarge, large, angle), x[0]);
}

static Number expandAcos(FloatBuilder &m, ArrayRef<Number> x) {
  auto [angle, isLarge] = arcOf(m, x[0]);
  Number isNegative = m.less(x[0], m.f(0));
  // π/2 ∓ the arc sine, or the arc cosine of |x|, or that less than π.
  Number small = m.f(kHalfPi) + (m.f(kHalfPiLow) - m.copySign(angle, x[0]));
  Number twice = angle + angle;
  Number obtuse = m.f(2 * kHalfPi) + (m.f(2 * kHalfPiLow) - twice);
  return m.select(isLarge, m.select(isNegative, obtuse, twice), small);
}

//===----------------------------------------------------------------------===//
// atan, atan2
//===----------------------------------------------------------------------===//

/// The angle of (x, y), whose signs are those of x and y.
static Number angleOf(FloatBuilder &m, Number y, Number x) {
  Number up = m.abs(y), along = m.abs(x);
  Number isSteep = m.greater(up, along), isLeft = m.isNegative(m.bits(x));
  Number smaller = m.minimum(up, along), larger = m.maximum(up, along);
  Number t = smaller / larger;
  t = m.select(m.equal(larger, m.f(0)), larger, t);
  t = m.select(m.equal(smaller, m.infinity()), m.f(1), t);
  // atan t = t + t·s·P(s) with s = t², 0 ≤ t ≤ 1.
  static constexpr double coefficients[] = {
      -0.33333301544189453,  0.1999862790107727,   -0.14265120029449463,
      0.10956861078739166,   -0.08417198061943054, 0.05819292739033699,
      -0.031411346048116684, 0.011039091274142265, -0.0018212044378742576};
  Number s = t * t;
  Number angle = m.fma(m.polynomial(s, coefficients) * s, t, t);
  // π/2 and π, in two parts each, or nothing to which to add ± the angle.
  auto start = [&](double half) {
    return m.select(isSteep, m.f(half), m.select(isLeft, m.f(2 * half), m.f(0)));
  };
  angle = m.select(isSteep ^ isLeft, -angle, angle);
  return m.copySign(start(kHalfPi) + (start(kHalfPiLow) + angle), y);
}

static Number expandAtan(FloatBuilder &m, ArrayRef<Number> x) { return angleOf(m, x[0], m.f(1)); }
static Number expandAtan2(FloatBuilder &m, ArrayRef<Number> x) { return angleOf(m, x[0], x[1]); }

void ejk::populateTrigonometricExpansions(RewritePatternSet &patterns) {
  addExpansion<math::SinOp>(patterns, expandSin);
  addExpansion<math::CosOp>(patterns, expandCos);
  addExpansion<math::TanOp>(patterns, expandTan);
  addExpansion<math::AsinOp>(patterns, expandAsin);
  addExpansion<math::AcosOp>(patterns, expandAcos);
  addExpansion<math::AtanOp>(patterns, expandAtan);
  addExpansion<math::Atan2Op>(patterns, expandAtan2);
}
