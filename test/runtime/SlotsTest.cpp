//===- SlotsTest.cpp - pools whose slots lie apart ------------------------===//

#include "FakeDriver.h"
#include "TestPackage.h"

#include <gtest/gtest.h>

using namespace ejk::test;
using nlohmann::json;

/// glaManifest, with h0 as a pool that ht is written to, and its stride behind the first kernel's
/// arguments.
static json poolManifest() {
  json manifest = glaManifest();
  json &entry = manifest["entries"][0];
  entry["inputs"][5]["slots"] = true;
  entry["outputs"][1]["in_place"] = true;
  json &launch = entry["launches"][0];
  launch["args"].push_back({{"slot_stride", 5}});
  // The fake driver takes the number of arguments from the name.
  launch["kernel"] = "pool_a" + std::to_string(launch["args"].size());
  return manifest;
}

namespace {
class Slots : public FakeDriverTest {
protected:
  static constexpr int64_t kSlot = 4 * 128 * 64;

  void SetUp() override {
    FakeDriverTest::SetUp();
    package = load(poolManifest());
    ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
    call.ht().data = call.h0().data;
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  std::string launch() { return take(ejk_launch(executable, 0, &call.params)); }
  /// With the slots `apart` elements from each other.
  std::string launchApart(int64_t apart) {
    strides[0] = apart;
    call.h0().strides = call.ht().strides = strides;
    return launch();
  }
  uint64_t strideGiven() {
    return fake->launches[0].args[glaManifest()["entries"][0]["launches"][0]["args"].size()];
  }

  PackagePtr package;
  ejk_executable *executable = nullptr;
  GlaCall call;
  int64_t strides[4] = {kSlot, 128 * 64, 64, 1};
};
} // namespace

TEST_F(Slots, TheStrideReachesTheKernel) {
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(strideGiven(), uint64_t(kSlot));
  fake->num_launches = 0;
  ASSERT_EQ(launchApart(kSlot + 8), "");
  EXPECT_EQ(strideGiven(), uint64_t(kSlot + 8));
}

TEST_F(Slots, AreApartAndAligned) {
  EXPECT_EQ(launchApart(kSlot - 4), "input 'h0': the stride of dimension 0 is 32764, expected at least "
                                    "32768, the elements of a slot");
  EXPECT_EQ(launchApart(kSlot + 1), "input 'h0': its slots are 131076 bytes apart, expected a multiple "
                                    "of 16");
  EXPECT_EQ(launchApart(int64_t(1) << 62), "input 'h0': its size overflows 64 bits");
  // One slot is not apart from another.
  call.shapes[5][0] = call.shapes[7][0] = 1;
  call.shapes[4][0] = 2;
  EXPECT_EQ(launchApart(1), "");
}

TEST_F(Slots, AreDense) {
  strides[1] += 128;
  EXPECT_NE(launchApart(kSlot + 1024), "");
}

// The end of the last slot, not of a dense tensor, is the end of the memory.
TEST_F(Slots, OverlapAsFarAsTheyReach) {
  call.o().data = static_cast<char *>(call.h0().data) + 3 * kSlot * 4;
  EXPECT_EQ(launch(), "");
  EXPECT_EQ(launchApart(kSlot + 8), "output 'o': its memory overlaps that of input 'h0', which it may "
                                    "not replace in place");
}

TEST_F(Slots, AnOutputHasItsPoolsStride) {
  ASSERT_EQ(launchApart(kSlot + 8), "");
  call.ht().strides = nullptr;
  EXPECT_EQ(launch(), "output 'ht': it is written in place: its memory must be exactly that of input "
                      "'h0'");
}

static std::string whyNot(const json &manifest) {
  std::string message;
  PackagePtr package = load(pack(manifest), message);
  return package ? "" : message;
}

TEST(SlotsManifest, Errors) {
  EXPECT_EQ(whyNot(poolManifest()), "");
  json manifest = poolManifest();
  manifest["entries"][0]["inputs"][5]["slots"] = 1;
  EXPECT_NE(whyNot(manifest).find("inputs[5].slots: expected true or false"), std::string::npos);
  manifest = poolManifest();
  manifest["entries"][0]["inputs"][5]["slots"] = false;
  EXPECT_NE(whyNot(manifest).find("the input has no slots"), std::string::npos);
  manifest = poolManifest();
  manifest["entries"][0]["launches"][0]["args"].push_back({{"slot_stride", 6}});
  EXPECT_NE(whyNot(manifest), "");
}
