//===- Sixteen.cpp - arithmetic of f16 and bf16 ---------------------------===//
//
// One number in the low half of a register, or two in a register. Each result is exact, or
// in f64 with the lost part's trace in its last bit, before it is rounded to 16 bits once.
//
//===----------------------------------------------------------------------===//
#include "Arithmetic.h"

using namespace emulator;

namespace {
/// `FractionBits` of fraction beside an exponent whose smallest is `Smallest`.
template <int FractionBits, int Smallest> struct Format {
  static constexpr uint64_t kOne = uint64_t(1) << FractionBits, kNaN = 0x7fff;
  static constexpr uint64_t kInfinity = uint64_t(3 - 2 * Smallest) << FractionBits;

  static double from(uint64_t bits) {
    uint64_t size = bits & 0x7fff; // of what may be the lower of two
    int exponent = int(size >> FractionBits);
    double value =
        size > kInfinity    ? NAN
        : size == kInfinity ? INFINITY
        : exponent ? std::ldexp(double(kOne + size % kOne), exponent - 1 + Smallest - FractionBits)
                   : std::ldexp(double(size), Smallest - FractionBits);
    return bits & 0x8000 ? -value : value;
  }
  static double flush(double x) {
    return std::fabs(x) < std::ldexp(1.0, Smallest) ? std::copysign(0.0, x) : x;
  }
  /// To the nearest, and of two the even one.
  static uint64_t to(double x) {
    if (std::isnan(x))
      return kNaN;
    uint64_t sign = std::signbit(x) ? 0x8000 : 0;
    double size = std::fabs(x);
    if (size >= std::ldexp(1.0, 2 - Smallest))
      return sign | kInfinity;
    int exponent = size == 0 ? Smallest : std::max(Smallest, std::ilogb(size));
    auto units = uint64_t(std::nearbyint(std::ldexp(size, FractionBits - exponent)));
    // From kOne on they carry into the exponent.
    return sign | std::min(kInfinity, uint64_t(exponent - Smallest) * kOne + units);
  }
};
using Half = Format<10, -14>;
using BFloat = Format<7, -126>;
} // namespace

/// a + b; where that is not exact its last bit is 1, so that a narrower rounding knows.
static double sumToOdd(double a, double b) {
  double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
  if (!std::isfinite(sum) || lost == 0)
    return sum;
  auto bits = give(sum);
  if (bits & 1)
    return sum;
  // The neighbour on the side of what was lost.
  bool isAway = (lost > 0) == (sum > 0);
  return take<double>(isAway ? bits + 1 : bits - 1);
}

static double rectified(double x) { return std::isnan(x) || x > 0 ? x : 0; }

// `a`, `b` and `c` are the operands as numbers; also of two packed in a register.
#define EJK_SIXTEEN(opcode, expression)                                                            \
  for (unsigned numbers : {1, 2})                                                                  \
  table[opcode + type + (numbers == 2 ? "x2" : "")] =                                              \
      numbers == 2                                                                                 \
          ? Function([](uint64_t bitsA, uint64_t bitsB, uint64_t bitsC) -> uint64_t {              \
              uint64_t result = 0;                                                                 \
              for (unsigned shift : {0u, 16u}) {                                                   \
                [[maybe_unused]] double a = F::from(bitsA >> shift), b = F::from(bitsB >> shift),  \
                                        c = F::from(bitsC >> shift);                               \
                result |= F::to(expression) << shift;                                              \
              }                                                                                    \
              return result;                                                                       \
            })                                                                                     \
          : Function([](uint64_t bitsA, uint64_t bitsB, uint64_t bitsC) -> uint64_t {              \
              [[maybe_unused]] double a = F::from(bitsA), b = F::from(bitsB), c = F::from(bitsC);  \
              return F::to(expression);                                                            \
            })
// Of two packed comparisons the second's bit is the higher.
#define EJK_SETP(name, condition)                                                                  \
  table["setp." name + type] = [](uint64_t bitsA, uint64_t bitsB, uint64_t) -> uint64_t {          \
    double a = F::from(bitsA), b = F::from(bitsB);                                                 \
    return condition;                                                                              \
  };                                                                                               \
  table["setp." name + type + "x2"] = [](uint64_t bitsA, uint64_t bitsB, uint64_t) -> uint64_t {   \
    uint64_t result = 0;                                                                           \
    for (unsigned i : {0, 1}) {                                                                    \
      double a = F::from(bitsA >> 16 * i), b = F::from(bitsB >> 16 * i);                           \
      result |= uint64_t(condition) << i;                                                          \
    }                                                                                              \
    return result;                                                                                 \
  }

template <typename F, typename Integer>
static void addIntegers(Table &table, const std::string &type, const std::string &integer) {
  table["cvt.rn" + type + integer] = [](uint64_t bits, uint64_t, uint64_t) {
    auto whole = take<Integer>(bits);
    // 64 bits may not fit f64.
    bool isWide = sizeof(Integer) == 8;
    return F::to(isWide ? sumToOdd(double(whole >> 16 >> 16) * 0x1p32, double(uint32_t(whole)))
                        : double(whole));
  };
  table["cvt.rzi" + integer + type] = [](uint64_t bits, uint64_t, uint64_t) {
    return give(toInteger<Integer>(F::from(bits)));
  };
  table["cvt.rni" + integer + type] = [](uint64_t bits, uint64_t, uint64_t) {
    return give(toInteger<Integer>(std::nearbyint(F::from(bits))));
  };
}

template <typename F> static void addFormat(Table &table, const std::string &type) {
  for (std::string rounding : {"", ".rn"}) {
    EJK_SIXTEEN("add" + rounding, sumToOdd(a, b));
    EJK_SIXTEEN("sub" + rounding, sumToOdd(a, -b));
    EJK_SIXTEEN("mul" + rounding, a * b);
  }
  EJK_SIXTEEN("fma.rn", sumToOdd(a * b, c));
  EJK_SIXTEEN("fma.rn.relu", rectified(sumToOdd(a * b, c)));
  EJK_SIXTEEN("min", smallerOf(a, b));
  EJK_SIXTEEN("max", largerOf(a, b));
  EJK_SIXTEEN("min.NaN", unlessNaN(a, b, smallerOf(a, b)));
  EJK_SIXTEEN("max.NaN", unlessNaN(a, b, largerOf(a, b)));
  EJK_SIXTEEN("ex2.approx", std::exp2(a));
  EJK_SIXTEEN("ex2.approx.ftz", F::flush(std::exp2(F::flush(a))));
  EJK_SIXTEEN("tanh.approx", std::tanh(a));
  // These keep the bits of NaN.
  table["neg" + type] = [](uint64_t a, uint64_t, uint64_t) { return (a ^ 0x8000) & 0xffff; };
  table["neg" + type + "x2"] = [](uint64_t a, uint64_t, uint64_t) {
    return (a ^ 0x80008000) & 0xffffffff;
  };
  table["abs" + type] = [](uint64_t a, uint64_t, uint64_t) { return a & 0x7fff; };
  table["abs" + type + "x2"] = [](uint64_t a, uint64_t, uint64_t) { return a & 0x7fff7fff; };
  EJK_SETP("eq", a == b);
  EJK_SETP("ne", a < b || a > b);
  EJK_SETP("lt", a < b);
  EJK_SETP("le", a <= b);
  EJK_SETP("gt", a > b);
  EJK_SETP("ge", a >= b);
  EJK_SETP("equ", !(a < b || a > b));
  EJK_SETP("neu", !(a == b));
  EJK_SETP("ltu", !(a >= b));
  EJK_SETP("leu", !(a > b));
  EJK_SETP("gtu", !(a <= b));
  EJK_SETP("geu", !(a < b));
  EJK_SETP("num", !std::isnan(a) && !std::isnan(b));
  EJK_SETP("nan", std::isnan(a) || std::isnan(b));
#define EJK_INTEGRAL(mode, expression)                                                             \
  table["cvt." mode + type + type] = [](uint64_t bits, uint64_t, uint64_t) {                       \
    double a = F::from(bits);                                                                      \
    return F::to(expression);                                                                      \
  }
  EJK_INTEGRAL("rmi", std::floor(a));
  EJK_INTEGRAL("rpi", std::ceil(a));
  EJK_INTEGRAL("rzi", std::trunc(a));
  EJK_INTEGRAL("rni", std::nearbyint(a));
  addIntegers<F, uint16_t>(table, type, ".u16");
  addIntegers<F, uint32_t>(table, type, ".u32");
  addIntegers<F, uint64_t>(table, type, ".u64");
  addIntegers<F, int16_t>(table, type, ".s16");
  addIntegers<F, int32_t>(table, type, ".s32");
  addIntegers<F, int64_t>(table, type, ".s64");
  table["cvt.f64" + type] = [](uint64_t a, uint64_t, uint64_t) { return give(F::from(a)); };
  table["cvt.rn" + type + ".f64"] = [](uint64_t a, uint64_t, uint64_t) {
    return F::to(take<double>(a));
  };
}

void emulator::addSixteenBitFloats(Table &table) {
  addFormat<Half>(table, ".f16");
  addFormat<BFloat>(table, ".bf16");
}
