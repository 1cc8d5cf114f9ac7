//===- Normal.h - normal numbers, the same on every machine -----*- C++ -*-===//

#ifndef EJK_TOOLS_HARNESS_NORMAL_H
#define EJK_TOOLS_HARNESS_NORMAL_H

#include <cmath>
#include <cstdint>
#include <random>

namespace ejk {

/// Normal numbers by Box and Muller: the standard library's differ between
/// implementations.
class Normal {
public:
  explicit Normal(uint64_t seed) : engine(seed) {}

  double uniform() {
    return (double(engine() >> 11) + 0.5) * 0x1p-53; // never 0 or 1
  }
  double next() {
    double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * 3.14159265358979323846 * uniform());
  }

private:
  std::mt19937_64 engine;
};

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_NORMAL_H
