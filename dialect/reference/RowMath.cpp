//===- RowMath.cpp - sums of rows, in the processor's widest vectors ------===//
#include "dialect/reference/RowMath.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace ejk;
using namespace ejk::reference;

// A fused multiply-add rounds once. Processors that lack it would give other bits.
#pragma STDC FP_CONTRACT OFF

namespace {
/// The results of a sum over rows that stay in registers from row to row.
constexpr size_t kColumns = 32;
/// The sums of a dot product.
constexpr size_t kLanes = 8;

template <bool toF32> [[gnu::always_inline]] inline double rounded(double x) {
  return toF32 ? double(float(x)) : x;
}

template <bool toF32>
[[gnu::always_inline]] inline void addRows(double *to, size_t n, const double *factors,
                                           size_t count, const double *from, ptrdiff_t pitch) {
  size_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    double sums[kColumns];
    for (size_t i = 0; i < kColumns; ++i)
      sums[i] = to[j + i];
    for (size_t l = 0; l < count; ++l)
      for (size_t i = 0; i < kColumns; ++i)
        sums[i] = rounded<toF32>(sums[i] + factors[l] * from[ptrdiff_t(l) * pitch + j + i]);
    for (size_t i = 0; i < kColumns; ++i)
      to[j + i] = sums[i];
  }
  for (size_t l = 0; j < n && l < count; ++l)
    for (size_t i = j; i < n; ++i)
      to[i] = rounded<toF32>(to[i] + factors[l] * from[ptrdiff_t(l) * pitch + i]);
}

// The two below read an element before they write it, so a row may be its own result.

template <bool toF32>
[[gnu::always_inline]] inline void addScaled(double *out, const double *row, double factor,
                                             const double *from, size_t n) {
#pragma clang loop vectorize(assume_safety)
  for (size_t i = 0; i < n; ++i)
    out[i] = rounded<toF32>(row[i] + factor * from[i]);
}

template <bool toF32>
[[gnu::always_inline]] inline void scale(double *out, double factor, const double *row, size_t n) {
#pragma clang loop vectorize(assume_safety)
  for (size_t i = 0; i < n; ++i)
    out[i] = rounded<toF32>(factor * row[i]);
}

template <bool toF32>
[[gnu::always_inline]] inline double dot(const double *a, const double *b, size_t n) {
  double sums[kLanes] = {};
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (size_t i = 0; i < kLanes; ++i)
      sums[i] = rounded<toF32>(sums[i] + a[j + i] * b[j + i]);
  for (size_t i = 0; j < n; ++j, ++i)
    sums[i] = rounded<toF32>(sums[i] + a[j] * b[j]);
  for (size_t i = 1; i < kLanes; ++i)
    sums[0] = rounded<toF32>(sums[0] + sums[i]);
  return sums[0];
}

/// A float type with `fraction` stored bits of significand, and normal exponents from `minExponent`
/// to `maxExponent`.
template <int fraction, int minExponent, int maxExponent> struct NarrowFormat {
  /// The bits of an f64's significand that the format has not, and what rounds up by them.
  static constexpr int dropped = 52 - fraction;
  static constexpr uint64_t half = (uint64_t(1) << (dropped - 1)) - 1;
  static constexpr uint64_t kept = ~((uint64_t(1) << dropped) - 1);

  static double round(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    int exponent = int(bits >> 52 & 0x7ff) - 1023;
    if (exponent == 1024)
      return x; // infinite or NaN
    if (exponent < minExponent) {
      // Subnormal here: multiples of one quantum. Adding and taking away a number
      // whose last bit is the quantum would do too, but for excess precision.
      double quantum = std::ldexp(1.0, minExponent - fraction);
      return std::copysign(std::nearbyint(x / quantum) * quantum, x);
    }
    bits = (bits + half + (bits >> dropped & 1)) & kept;
    double rounded;
    std::memcpy(&rounded, &bits, sizeof bits);
    if (int(bits >> 52 & 0x7ff) - 1023 > maxExponent)
      return std::copysign(std::numeric_limits<double>::infinity(), x);
    return rounded;
  }

  /// Vectors of elements that are normal numbers, zeros too, and stay so; others one by one.
  [[gnu::always_inline]] static inline void roundRow(double *row, size_t n) {
    constexpr size_t count = 8;
    constexpr uint64_t magnitude = ~uint64_t(0) >> 1, first = uint64_t(minExponent + 1023) << 52,
                       range = uint64_t(maxExponent - minExponent) << 52;
    size_t j = 0;
    for (; j + count <= n; j += count) {
      uint64_t bits[count], unusual = 0;
      std::memcpy(bits, row + j, sizeof bits);
      for (size_t i = 0; i < count; ++i) {
        uint64_t size = bits[i] & magnitude;
        unusual |= uint64_t(size != 0) & uint64_t(size - first >= range);
      }
      if (unusual) {
        for (size_t i = 0; i < count; ++i)
          row[j + i] = round(row[j + i]);
        continue;
      }
      for (size_t i = 0; i < count; ++i)
        bits[i] = (bits[i] + half + (bits[i] >> dropped & 1)) & kept;
      std::memcpy(row + j, bits, sizeof bits);
    }
    for (; j < n; ++j)
      row[j] = round(row[j]);
  }
};
using BF16 = NarrowFormat<7, -126, 127>;
using F16 = NarrowFormat<10, -14, 15>;

[[gnu::always_inline]] inline void rowToF32(double *row, size_t n) {
  for (size_t i = 0; i < n; ++i)
    row[i] = double(float(row[i]));
}
} // namespace

double ejk::reference::toBF16(double x) { return BF16::round(x); }
double ejk::reference::toF16(double x) { return F16::round(x); }

/// The functions above, compiled for the processors that `TARGET` names.
#define EJK_ROW_MATH(NAME, TARGET)                                                                 \
  namespace {                                                                                      \
  template <bool toF32> struct NAME {                                                              \
    TARGET static void addRows(double *to, size_t n, const double *factors, size_t count,          \
                               const double *from, ptrdiff_t pitch) {                              \
      ::addRows<toF32>(to, n, factors, count, from, pitch);                                        \
    }                                                                                              \
    TARGET static void addScaled(double *out, const double *row, double factor,                    \
                                 const double *from, size_t n) {                                   \
      ::addScaled<toF32>(out, row, factor, from, n);                                               \
    }                                                                                              \
    TARGET static void scale(double *out, double factor, const double *row, size_t n) {            \
      ::scale<toF32>(out, factor, row, n);                                                         \
    }                                                                                              \
    TARGET static double dot(const double *a, const double *b, size_t n) {                         \
      return ::dot<toF32>(a, b, n);                                                                \
    }                                                                                              \
    TARGET static void rowToF32(double *row, size_t n) { ::rowToF32(row, n); }                     \
    TARGET static void rowToBF16(double *row, size_t n) { BF16::roundRow(row, n); }                \
    TARGET static void rowToF16(double *row, size_t n) { F16::roundRow(row, n); }                  \
    static constexpr RowMath all = {                                                               \
        addRows, addScaled, scale, dot, rowToF32, rowToBF16, rowToF16};                            \
  };                                                                                               \
  }

EJK_ROW_MATH(Everywhere, )
#ifdef __x86_64__
EJK_ROW_MATH(Avx2, [[gnu::target("avx2")]])
#endif

template <bool toF32> static const RowMath &widest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    return Avx2<toF32>::all;
#endif
  return Everywhere<toF32>::all;
}

const RowMath &ejk::reference::rowMath(Precision precision) {
  static const RowMath &f32 = widest<true>(), &f64 = widest<false>();
  return precision == Precision::native ? f32 : f64;
}
