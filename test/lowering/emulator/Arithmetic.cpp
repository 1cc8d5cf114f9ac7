//===- Arithmetic.cpp - what one thread computes --------------------------===//
//
// A line for each opcode, on the bits of its operands. What is narrower than a
// register lies in its low bits; of two packed numbers the first is the lower.
//
//===----------------------------------------------------------------------===//
#include "Arithmetic.h"
#include <algorithm>

using namespace emulator;

// `a`, `b` and `c` are the operands as numbers of type T.
#define EJK_OP(T, opcode, expression)                                                              \
  table[opcode] = [](uint64_t bitsA, uint64_t bitsB, uint64_t bitsC) -> uint64_t {                 \
    [[maybe_unused]] T a = take<T>(bitsA), b = take<T>(bitsB), c = take<T>(bitsC);                 \
    return give(expression);                                                                       \
  }
// `a` is the operand as a T, `shift` and `third` the others as u32.
#define EJK_SHIFT(T, opcode, expression)                                                           \
  table[opcode] = [](uint64_t bitsA, uint64_t bitsB, uint64_t bitsC) -> uint64_t {                 \
    T a = take<T>(bitsA);                                                                          \
    [[maybe_unused]] uint32_t shift = take<uint32_t>(bitsB), third = take<uint32_t>(bitsC);        \
    return give(expression);                                                                       \
  }

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

template <typename T> static void addAnyIntegers(Table &table, const std::string &type) {
  constexpr uint32_t bits = 8 * sizeof(T);
  EJK_OP(T, "add" + type, T(a + b));
  EJK_OP(T, "sub" + type, T(a - b));
  EJK_OP(T, "mul.lo" + type, T(a * b));
  EJK_OP(T, "mad.lo" + type, T(a * b + c));
  EJK_OP(T, "div" + type, b ? T(a / b) : T(-1));
  EJK_OP(T, "rem" + type, b ? T(a % b) : a);
  EJK_OP(T, "min" + type, std::min(a, b));
  EJK_OP(T, "max" + type, std::max(a, b));
  EJK_OP(T, "neg" + type, T(0 - a));
  EJK_OP(T, "and" + type, T(a & b));
  EJK_OP(T, "or" + type, T(a | b));
  EJK_OP(T, "xor" + type, T(a ^ b));
  EJK_OP(T, "not" + type, T(~a));
  EJK_OP(T, "setp.eq" + type, uint64_t(a == b));
  EJK_OP(T, "setp.ne" + type, uint64_t(a != b));
  EJK_OP(T, "setp.lt" + type, uint64_t(a < b));
  EJK_OP(T, "setp.le" + type, uint64_t(a <= b));
  EJK_OP(T, "setp.gt" + type, uint64_t(a > b));
  EJK_OP(T, "setp.ge" + type, uint64_t(a >= b));
  EJK_SHIFT(T, "shl" + type, shift < bits ? T(a << shift) : T(0));
  EJK_SHIFT(T, "shr" + type, shift < bits ? T(a >> shift) : T(a < T(0) ? -1 : 0));
  table["selp" + type] = [](uint64_t a, uint64_t b, uint64_t chosen) { return chosen ? a : b; };
}

static void addIntegers(Table &table) {
  EJK_OP(int32_t, "min.relu.s32", std::max(std::min(a, b), 0));
  EJK_OP(int32_t, "max.relu.s32", std::max(std::max(a, b), 0));
  // Bits, which have no sign, are as good as unsigned.
  for (std::string kind : {".u", ".b"}) {
    addAnyIntegers<uint16_t>(table, kind + "16");
    addAnyIntegers<uint32_t>(table, kind + "32");
    addAnyIntegers<uint64_t>(table, kind + "64");
  }
  addAnyIntegers<int16_t>(table, ".s16");
  addAnyIntegers<int32_t>(table, ".s32");
  addAnyIntegers<int64_t>(table, ".s64");
  EJK_OP(uint32_t, "mul.wide.u32", uint64_t(a) * b);
  EJK_OP(int32_t, "mul.wide.s32", int64_t(a) * b);
  EJK_OP(uint16_t, "mul.wide.u16", uint32_t(a) * b);
  EJK_OP(uint16_t, "mul.hi.u16", uint16_t(uint32_t(a) * b >> 16));
  EJK_OP(int16_t, "mul.hi.s16", int16_t(int32_t(a) * b >> 16));
  EJK_OP(uint32_t, "mul.hi.u32", uint32_t(uint64_t(a) * b >> 32));
  EJK_OP(int32_t, "mul.hi.s32", int32_t(int64_t(a) * b >> 32));
  EJK_OP(uint64_t, "mul.hi.u64", uint64_t((unsigned __int128)a * b >> 64));
  EJK_OP(int64_t, "mul.hi.s64", int64_t((__int128)a * b >> 64));
  EJK_OP(int16_t, "mul.wide.s16", int32_t(a) * b);
  EJK_OP(int16_t, "abs.s16", int16_t(a < 0 ? uint16_t(0) - uint16_t(a) : a));
  EJK_OP(int32_t, "abs.s32", a < 0 ? 0 - uint32_t(a) : uint32_t(a));
  EJK_OP(int64_t, "abs.s64", a < 0 ? 0 - uint64_t(a) : uint64_t(a));
  EJK_OP(uint32_t, "clz.b32", uint32_t(a ? __builtin_clz(a) : 32));
  EJK_OP(uint64_t, "clz.b64", uint32_t(a ? __builtin_clzll(a) : 64));
  EJK_OP(uint32_t, "popc.b32", uint32_t(__builtin_popcount(a)));
  EJK_OP(uint64_t, "popc.b64", uint32_t(__builtin_popcountll(a)));
  EJK_OP(uint32_t, "brev.b32", __builtin_bitreverse32(a));
  EJK_OP(uint64_t, "brev.b64", __builtin_bitreverse64(a));
  // `third` bits from bit `shift` on.
  EJK_SHIFT(uint32_t, "bfe.u32", third < 32 ? (a >> shift) & ((1u << third) - 1) : a >> shift);
  EJK_SHIFT(uint64_t, "bfe.u64",
            third < 64 ? (a >> shift) & ((uint64_t(1) << third) - 1) : a >> shift);
  EJK_SHIFT(uint32_t, "bfe.s32",
            third ? int32_t(a << (32 - shift - third)) >> (32 - third) : int32_t(0));
  EJK_SHIFT(uint64_t, "bfe.s64",
            third ? int64_t(a << (64 - shift - third)) >> (64 - third) : int64_t(0));
  EJK_OP(uint64_t, "and.pred", a &b);
  EJK_OP(uint64_t, "or.pred", a | b);
  EJK_OP(uint64_t, "xor.pred", a ^ b);
  EJK_OP(uint64_t, "not.pred", a ^ 1);
  // Bytes of two registers, each chosen by four bits.
  table["shf.l.wrap.b32"] = [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    return uint32_t((uint32_t(b) * uint64_t(1) << 32 | uint32_t(a)) << (c & 31) >> 32);
  };
  table["prmt.b32"] = [](uint64_t a, uint64_t b, uint64_t selectors) -> uint64_t {
    uint64_t both = (a & 0xffffffff) | b << 32, result = 0;
    for (unsigned i = 0; i < 4; ++i)
      result |= (both >> 8 * (selectors >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
  };
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

template <typename T> static void addFloats(Table &table, const std::string &type) {
  for (std::string rounding : {"", ".rn", ".rn.ftz"}) {
    EJK_OP(T, "add" + rounding + type, T(a + b));
    EJK_OP(T, "sub" + rounding + type, T(a - b));
    EJK_OP(T, "mul" + rounding + type, T(a * b));
    EJK_OP(T, "div" + rounding + type, T(a / b));
    EJK_OP(T, "fma" + rounding + type, T(std::fma(a, b, c)));
    EJK_OP(T, "sqrt" + rounding + type, T(std::sqrt(a)));
    EJK_OP(T, "rcp" + rounding + type, T(1 / a));
  }
  EJK_OP(T, "neg" + type, T(-a));
  EJK_OP(T, "abs" + type, T(std::fabs(a)));
  EJK_OP(T, "copysign" + type, T(std::copysign(b, a)));
  EJK_OP(T, "min" + type, smallerOf(a, b));
  EJK_OP(T, "max" + type, largerOf(a, b));
  EJK_OP(T, "min.NaN" + type, unlessNaN(a, b, smallerOf(a, b)));
  EJK_OP(T, "max.NaN" + type, unlessNaN(a, b, largerOf(a, b)));
  table["selp" + type] = [](uint64_t a, uint64_t b, uint64_t chosen) { return chosen ? a : b; };
  EJK_OP(T, "setp.eq" + type, uint64_t(a == b));
  EJK_OP(T, "setp.ne" + type, uint64_t(a < b || a > b));
  EJK_OP(T, "setp.lt" + type, uint64_t(a < b));
  EJK_OP(T, "setp.le" + type, uint64_t(a <= b));
  EJK_OP(T, "setp.gt" + type, uint64_t(a > b));
  EJK_OP(T, "setp.ge" + type, uint64_t(a >= b));
  EJK_OP(T, "setp.equ" + type, uint64_t(!(a < b || a > b)));
  EJK_OP(T, "setp.neu" + type, uint64_t(!(a == b)));
  EJK_OP(T, "setp.ltu" + type, uint64_t(!(a >= b)));
  EJK_OP(T, "setp.leu" + type, uint64_t(!(a > b)));
  EJK_OP(T, "setp.gtu" + type, uint64_t(!(a <= b)));
  EJK_OP(T, "setp.geu" + type, uint64_t(!(a < b)));
  EJK_OP(T, "setp.num" + type, uint64_t(!std::isnan(a) && !std::isnan(b)));
  EJK_OP(T, "setp.nan" + type, uint64_t(std::isnan(a) || std::isnan(b)));
  EJK_OP(T, "cvt.rmi" + type + type, T(std::floor(a)));
  EJK_OP(T, "cvt.rpi" + type + type, T(std::ceil(a)));
  EJK_OP(T, "cvt.rzi" + type + type, T(std::trunc(a)));
  EJK_OP(T, "cvt.rni" + type + type, T(std::nearbyint(a)));
}

/// What `ftz` makes of a number that is too small to be a normal one.
static float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

/// What `sat` makes of a number. NaN is zero.
static float saturated(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }

/// Two f32 in a register of 64 bits.
template <float (*op)(float, float, float)>
static uint64_t packed(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t low = give(op(take<float>(a), take<float>(b), take<float>(c)));
  return low | give(op(take<float>(a >> 32), take<float>(b >> 32), take<float>(c >> 32))) << 32;
}
static float added(float a, float b, float) { return a + b; }
static float subtracted(float a, float b, float) { return a - b; }
static float multiplied(float a, float b, float) { return a * b; }
static float multipliedAndAdded(float a, float b, float c) { return std::fma(a, b, c); }

static void addPackedFloats(Table &table) {
  for (std::string rounding : {"", ".rn"}) {
    table["add" + rounding + ".f32x2"] = packed<added>;
    table["sub" + rounding + ".f32x2"] = packed<subtracted>;
    table["mul" + rounding + ".f32x2"] = packed<multiplied>;
    table["fma" + rounding + ".f32x2"] = packed<multipliedAndAdded>;
  }
}

static void addFastFloats(Table &table) {
  EJK_OP(float, "ex2.approx.f32", std::exp2(a));
  EJK_OP(float, "lg2.approx.f32", std::log2(a));
  EJK_OP(float, "rcp.approx.f32", 1 / a);
  EJK_OP(float, "rsqrt.approx.f32", float(1 / std::sqrt(double(a))));
  EJK_OP(float, "sqrt.approx.f32", std::sqrt(a));
  EJK_OP(float, "ex2.approx.ftz.f32", flushed(std::exp2(flushed(a))));
  EJK_OP(float, "lg2.approx.ftz.f32", std::log2(flushed(a)));
  EJK_OP(float, "rcp.approx.ftz.f32", flushed(1 / flushed(a)));
  EJK_OP(float, "rsqrt.approx.ftz.f32", float(1 / std::sqrt(double(flushed(a)))));
  EJK_OP(float, "sqrt.approx.ftz.f32", std::sqrt(flushed(a)));
  for (std::string flushes : {"", ".ftz"}) {
    std::string type = flushes + ".f32";
    EJK_OP(float, "div.full" + type, a / b);
    EJK_OP(float, "div.approx" + type, a / b);
    EJK_OP(float, "sin.approx" + type, std::sin(a));
    EJK_OP(float, "cos.approx" + type, std::cos(a));
  }
  EJK_OP(float, "tanh.approx.f32", std::tanh(a));
  EJK_OP(float, "fma.rn.sat.f32", saturated(std::fma(a, b, c)));
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

template <typename Integer> static void addConversions(Table &table, const std::string &type) {
  EJK_OP(Integer, "cvt.rn.f32" + type, float(a));
  EJK_OP(Integer, "cvt.rn.f64" + type, double(a));
  EJK_OP(float, "cvt.rzi" + type + ".f32", toInteger<Integer>(a));
  EJK_OP(double, "cvt.rzi" + type + ".f64", toInteger<Integer>(a));
  EJK_OP(float, "cvt.rni" + type + ".f32", toInteger<Integer>(std::nearbyint(a)));
  // To another width.
  EJK_OP(Integer, "cvt.u16" + type, uint16_t(a));
  EJK_OP(Integer, "cvt.u32" + type, uint32_t(a));
  EJK_OP(Integer, "cvt.u64" + type, uint64_t(a));
  EJK_OP(Integer, "cvt.s32" + type, int32_t(a));
  EJK_OP(Integer, "cvt.s64" + type, int64_t(a));
}

static void addConversions(Table &table) {
  addConversions<uint16_t>(table, ".u16");
  addConversions<uint32_t>(table, ".u32");
  addConversions<uint64_t>(table, ".u64");
  addConversions<int16_t>(table, ".s16");
  addConversions<int32_t>(table, ".s32");
  addConversions<int64_t>(table, ".s64");
  EJK_OP(float, "cvt.f64.f32", double(a));
  EJK_OP(double, "cvt.rn.f32.f64", float(a));
  EJK_OP(uint16_t, "cvt.f32.f16", fromHalf(a));
  EJK_OP(uint16_t, "cvt.f32.bf16", fromBF16(a));
  EJK_OP(float, "cvt.rn.f16.f32", toHalf(a));
  EJK_OP(float, "cvt.rn.bf16.f32", toBF16(a));
  EJK_OP(float, "cvt.rn.tf32.f32", toTF32(a));
  // The first operand becomes the upper half.
  EJK_OP(float, "cvt.rn.f16x2.f32", toHalf(a) << 16 | toHalf(b));
  EJK_OP(float, "cvt.rn.bf16x2.f32", toBF16(a) << 16 | toBF16(b));
}

Function emulator::findFunction(const std::string &opcode) {
  static const Table table = [] {
    Table table;
    addIntegers(table);
    addFloats<float>(table, ".f32");
    addFloats<double>(table, ".f64");
    addPackedFloats(table);
    addFastFloats(table);
    addConversions(table);
    addSixteenBitFloats(table);
    return table;
  }();
  auto it = table.find(opcode);
  return it == table.end() ? nullptr : it->second;
}
