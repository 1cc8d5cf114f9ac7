//===- Compare.h - how far two tensors are apart ----------------*- C++ -*-===//

#ifndef EJK_TOOLS_HARNESS_COMPARE_H
#define EJK_TOOLS_HARNESS_COMPARE_H

#include "io/HostTensor.h"

namespace ejk {

/// Errors relative to the expected tensor. Elements that are both NaN, or infinities
/// of one sign, agree and count for nothing else. Errors are infinite where there is no
/// number: shapes differ, a value is NaN or infinite on one side alone, or something
/// was found where all zeros were expected.
struct Comparison {
  double relativeL2 = 0;   ///< |x - ref| / |ref|, Euclidean norms
  double relativeMax = 0;  ///< max |x - ref| / max |ref|
  int64_t worstIndex = -1; ///< of the largest difference, flat; -1 if none
  double worstActual = 0, worstExpected = 0;
  int64_t nonFinite = 0; ///< elements that are NaN or infinite on one side alone
  std::string problem;   ///< why there is no number, when there is none

  /// NaN on one side alone passes no tolerance.
  bool passes(double tolerance) const { return relativeL2 <= tolerance; }
  /// One line for people.
  std::string describe() const;
};

/// Compares in f64; the element types may differ. An infinity agrees with a number that
/// the actual type rounds to it, and a zero with one that underflows there.
Comparison compare(const HostTensor &actual, const HostTensor &expected);

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_COMPARE_H
