//===- Numbers.h - bits and the numbers they stand for ------------*- C++ -*-===//
#ifndef EJK_TEST_EMULATOR_NUMBERS_H
#define EJK_TEST_EMULATOR_NUMBERS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulator {

/// The number that the low bytes of `bits` are.
template <typename T> T take(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}
template <typename T> uint64_t give(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

inline float fromHalf(uint64_t bits) {
  int exponent = int(bits >> 10 & 31), fraction = int(bits & 1023);
  float size = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? std::ldexp(float(1024 + fraction), exponent - 25)
                              : std::ldexp(float(fraction), -24);
  return bits & 0x8000 ? -size : size;
}
/// To the nearest, and of two the even one, as nearbyint does it.
inline uint64_t toHalf(float x) {
  uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x))
    return 0x7fff;
  float size = std::fabs(x);
  if (size >= 65520)
    return sign | 0x7c00;
  int exponent = std::max(-14, std::ilogb(size == 0 ? 1e-9f : size));
  auto units = uint64_t(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // 1024 of them, and more, carry into the exponent.
  return sign | (uint64_t(exponent + 14) * 1024 + units);
}
inline float fromBF16(uint64_t bits) { return take<float>((bits & 0xffff) << 16); }
/// To the nearest, and of two the even one.
inline uint64_t toBF16(float x) {
  uint64_t bits = give(x);
  return std::isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
/// The same, in a word whose last 13 bits are zero.
inline uint64_t toTF32(float x) {
  uint64_t bits = give(x);
  return std::isnan(x) ? 0x7fffe000 : (bits + 0xfff + (bits >> 13 & 1)) & ~uint64_t(0x1fff);
}

} // namespace emulator

#endif // EJK_TEST_EMULATOR_NUMBERS_H
