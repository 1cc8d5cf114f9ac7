//===- RowMathTest.cpp - rows in vectors have the bits of elements one by one ===//
#include "dialect/reference/RowMath.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace ejk::reference;

namespace {
uint64_t bitsOf(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// Numbers of every size, with all that is special among them, in an order of its own.
std::vector<double> everyKind(std::mt19937_64 &random, size_t count) {
  std::vector<double> numbers = {
      0.0,      -0.0,       INFINITY,   -INFINITY, NAN,           65504,      65519.99,
      65520,    0x1p-14,    0x1p-24,    0x1p-25,   0x1.8p-25,     0x1p-126,   0x1p-133,
      0x1p-134, 0x1.fep127, 0x1.ffp127, 0x1p128,   -0x1.ffffp127, 1 + 0x1p-8, 1 + 0x1.8p-7};
  while (numbers.size() < count) {
    double x;
    uint64_t bits = random();
    std::memcpy(&x, &bits, sizeof x);
    numbers.push_back(x);
    numbers.push_back(std::ldexp(1 + double(random() >> 11) * 0x1p-53, int(random() % 300) - 150));
  }
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

TEST(RowMath, RoundsRowsAsElements) {
  MLIRContext context;
  Builder b(&context);
  std::mt19937_64 random(1);
  for (Type type :
       {Type(b.getF32Type()), Type(b.getBF16Type()), Type(b.getF16Type()), Type(b.getF64Type())})
    for (size_t count : {1, 7, 8, 9, 5000}) {
      std::vector<double> row = everyKind(random, count);
      std::vector<double> rounded = row;
      roundRow(type, rounded.data(), rounded.size());
      for (size_t i = 0; i < row.size(); ++i) {
        double one = roundTo(type, row[i]);
        if (std::isnan(one))
          EXPECT_TRUE(std::isnan(rounded[i]));
        else
          EXPECT_EQ(bitsOf(rounded[i]), bitsOf(one)) << row[i];
      }
    }
}

TEST(RowMath, SumsInTheOrderThatItSays) {
  std::mt19937_64 random(2);
  auto draw = [&](size_t n) {
    std::vector<double> row(n);
    for (double &x : row)
      x = double(float(std::normal_distribution<double>()(random)));
    return row;
  };
  for (Precision precision : {Precision::native, Precision::f64})
    for (size_t n : {1, 5, 31, 32, 33, 100}) {
      const RowMath &math = rowMath(precision);
      auto round = [&](double x) { return precision == Precision::native ? double(float(x)) : x; };
      constexpr size_t rows = 9;
      std::vector<double> factors = draw(rows), from = draw(rows * n), sums = draw(n), a = draw(n);
      for (bool backwards : {false, true}) {
        std::vector<double> expected = sums, actual = sums;
        for (size_t l = 0; l < rows; ++l)
          for (size_t j = 0; j < n; ++j) {
            double product = factors[l] * from[(backwards ? rows - 1 - l : l) * n + j];
            expected[j] = round(expected[j] + product);
          }
        math.addRows(actual.data(), n, factors.data(), rows,
                     from.data() + (backwards ? (rows - 1) * n : 0),
                     backwards ? -ptrdiff_t(n) : ptrdiff_t(n));
        EXPECT_EQ(actual, expected);
      }
      // In place, as a state is.
      std::vector<double> state = sums, scaled = sums;
      math.addScaled(state.data(), state.data(), factors[0], a.data(), n);
      math.scale(scaled.data(), factors[1], scaled.data(), n);
      std::vector<double> lanes(8);
      for (size_t j = 0; j < n; ++j) {
        double product = factors[0] * a[j], term = sums[j] * a[j];
        EXPECT_EQ(state[j], round(sums[j] + product));
        EXPECT_EQ(scaled[j], round(factors[1] * sums[j]));
        lanes[j % 8] = round(lanes[j % 8] + term);
      }
      for (size_t i = 1; i < 8; ++i)
        lanes[0] = round(lanes[0] + lanes[i]);
      EXPECT_EQ(math.dot(sums.data(), a.data(), n), lanes[0]);
    }
}
} // namespace
