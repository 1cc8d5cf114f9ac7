//===- CompareTest.cpp - how far two tensors are apart --------------------===//

#include "harness/Compare.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace ejk;

static HostTensor vector(std::vector<double> values, DataType dtype = DataType::F64) {
  return fromDoubles("x", dtype, {int64_t(values.size())}, values);
}

TEST(Compare, RelativeErrors) {
  Comparison c = compare(vector({3, 4.5}), vector({3, 4}));
  EXPECT_DOUBLE_EQ(c.relativeL2, 0.1);
  EXPECT_DOUBLE_EQ(c.relativeMax, 0.125);
  EXPECT_EQ(c.worstIndex, 1);
  EXPECT_TRUE(c.passes(0.11));
  EXPECT_FALSE(c.passes(0.09));
}

TEST(Compare, TypesMayDiffer) {
  EXPECT_TRUE(compare(vector({1, 2}, DataType::BF16), vector({1, 2})).passes(0));
}

TEST(Compare, NaNAgreesWithNaNAlone) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_FALSE(compare(vector({bad, 1}), vector({1, 1})).passes(1e300));
    EXPECT_FALSE(compare(vector({1, 1}), vector({bad, 1})).passes(1e300));
    EXPECT_FALSE(compare(vector({-bad, std::nan("")}), vector({bad, 1})).passes(1e300));
    EXPECT_TRUE(compare(vector({bad, 1}), vector({bad, 1})).passes(0));
    // Elsewhere a difference counts as ever.
    Comparison c = compare(vector({bad, 3, 4.5}), vector({bad, 3, 4}));
    EXPECT_DOUBLE_EQ(c.relativeL2, 0.1);
    EXPECT_EQ(c.worstIndex, 2);
  }
  EXPECT_FALSE(compare(vector({HUGE_VAL}), vector({-HUGE_VAL})).passes(1e300));
  EXPECT_FALSE(compare(vector({HUGE_VAL}), vector({std::nan("")})).passes(1e300));
  Comparison c = compare(vector({1, std::nan("")}), vector({1, 1}));
  EXPECT_EQ(c.nonFinite, 1);
  EXPECT_EQ(c.worstIndex, 1);
}

TEST(Compare, InfinityIsWhatTheTypeRoundsTo) {
  EXPECT_TRUE(compare(vector({7e4}, DataType::F16), vector({7e4})).passes(0));
  EXPECT_FALSE(compare(vector({7e4}, DataType::F16), vector({-7e4})).passes(1e300));
  EXPECT_FALSE(compare(vector({HUGE_VAL}, DataType::F16), vector({6e4})).passes(1e300));
}

TEST(Compare, ZeroIsWhatTheTypeRoundsTo) {
  EXPECT_TRUE(compare(vector({0, 1}, DataType::F32), vector({-1e-52, 1})).passes(0));
  EXPECT_TRUE(compare(vector({0}, DataType::F32), vector({1e-52})).passes(0));
  EXPECT_TRUE(compare(vector({0}, DataType::F16), vector({1e-9})).passes(0));
  EXPECT_FALSE(compare(vector({0}, DataType::F16), vector({1e-7})).passes(0.5));
  EXPECT_FALSE(compare(vector({0}, DataType::F32), vector({1e-44})).passes(0.5));
  EXPECT_FALSE(compare(vector({0}), vector({1e-52})).passes(0.5));
}

TEST(Compare, ZerosAreExpectedExactly) {
  EXPECT_TRUE(compare(vector({0, 0}), vector({0, 0})).passes(0));
  EXPECT_FALSE(compare(vector({0, 1e-30}), vector({0, 0})).passes(1e300));
  EXPECT_TRUE(compare(vector({}), vector({})).passes(0));
}

TEST(Compare, ExtremeMagnitudes) {
  Comparison c = compare(vector({1.1e-300, 0}), vector({1e-300, 0}));
  EXPECT_NEAR(c.relativeL2, 0.1, 1e-9);
  c = compare(vector({1.1e300, 0}), vector({1e300, 0}));
  EXPECT_NEAR(c.relativeL2, 0.1, 1e-9);
}

TEST(Compare, Shapes) {
  Comparison c = compare(vector({1}), vector({1, 1}));
  EXPECT_FALSE(c.passes(1e300));
  EXPECT_EQ(c.describe(), "is f64 [1], expected f64 [2]");
}
