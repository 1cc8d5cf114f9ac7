//===- Compare.cpp - how far two tensors are apart ------------------------===//

#include "Compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace ejk;

static Comparison incomparable(Comparison comparison, std::string problem) {
  comparison.problem = std::move(problem);
  comparison.relativeL2 = comparison.relativeMax = std::numeric_limits<double>::infinity();
  return comparison;
}

/// What a tensor of this type has for `value`.
static double rounded(DataType dtype, double value) {
  HostTensor one = makeTensor("", dtype, {1});
  setElement(one, 0, value);
  return elementAsDouble(one, 0);
}

/// Both NaN, or infinities of one sign. What the actual type rounds to infinity is one, and what it
/// rounds to zero is zero.
static bool agreeWithoutNumber(const HostTensor &actual, double a, double e) {
  if (std::isnan(a) || std::isnan(e))
    return std::isnan(a) && std::isnan(e);
  if (a == 0 && e != 0)
    return rounded(actual.dtype, e) == 0;
  return std::isinf(a) && (a == e || a == rounded(actual.dtype, e));
}

Comparison ejk::compare(const HostTensor &actual, const HostTensor &expected) {
  Comparison result;
  if (actual.shape != expected.shape)
    return incomparable(result, "is " + actual.describe() + ", expected " + expected.describe());
  // Scaled by the largest values, so that squares neither overflow nor vanish.
  double maxDifference = 0, maxExpected = 0;
  int64_t count = actual.numElements();
  for (int64_t i = 0; i < count; ++i) {
    double a = elementAsDouble(actual, i), e = elementAsDouble(expected, i);
    if (agreeWithoutNumber(actual, a, e))
      continue;
    bool finite = std::isfinite(a) && std::isfinite(e);
    double difference = finite ? std::fabs(a - e) : 0;
    if (!finite && ++result.nonFinite > 1)
      continue;
    if (!finite || (result.nonFinite == 0 && difference > maxDifference)) {
      result.worstIndex = i;
      result.worstActual = a;
      result.worstExpected = e;
    }
    maxDifference = std::max(maxDifference, difference);
    if (finite)
      maxExpected = std::max(maxExpected, std::fabs(e));
  }
  if (result.nonFinite)
    return incomparable(result,
                        "NaN or infinite on one side alone: " + std::to_string(result.nonFinite) +
                            " of " + std::to_string(count) + " elements");
  if (maxDifference == 0)
    return result;
  if (maxExpected == 0)
    return incomparable(result, "expected only zeros");
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    double a = elementAsDouble(actual, i), e = elementAsDouble(expected, i);
    if (agreeWithoutNumber(actual, a, e))
      continue;
    double d = (a - e) / maxExpected;
    difference += d * d;
    norm += (e / maxExpected) * (e / maxExpected);
  }
  result.relativeL2 = std::sqrt(difference / norm);
  result.relativeMax = maxDifference / maxExpected;
  return result;
}

std::string Comparison::describe() const {
  char text[256];
  if (problem.empty())
    std::snprintf(text, sizeof(text), "relative L2 error %.3e, max error %.3e", relativeL2,
                  relativeMax);
  std::string line = problem.empty() ? text : problem;
  if (worstIndex >= 0) {
    std::snprintf(text, sizeof(text), " (worst at element %lld: %.9g, expected %.9g)",
                  static_cast<long long>(worstIndex), worstActual, worstExpected);
    line += text;
  }
  return line;
}
