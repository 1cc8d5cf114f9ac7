//===- Arithmetic.h - opcodes and what they compute ---------------*- C++ -*-===//
#ifndef EJK_TEST_EMULATOR_ARITHMETIC_H
#define EJK_TEST_EMULATOR_ARITHMETIC_H

#include "Numbers.h"
#include "Ptx.h"
#include <limits>
#include <unordered_map>

namespace emulator {

using Table = std::unordered_map<std::string, Function>;

/// f16 and bf16, one or two in a register.
void addSixteenBitFloats(Table &table);

/// The smaller that is no NaN; -0 is smaller than +0.
template <typename T> T smallerOf(T a, T b) {
  return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
}
template <typename T> T largerOf(T a, T b) {
  return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b);
}
template <typename T> T unlessNaN(T a, T b, T result) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : result;
}

/// The nearest integer towards zero, of what is outside the range its end.
template <typename To, typename From> To toInteger(From x) {
  if (std::isnan(x))
    return 0;
  if (x <= From(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  if (x >= From(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  return To(x);
}

} // namespace emulator

#endif // EJK_TEST_EMULATOR_ARITHMETIC_H
