//===- UnusedRowsTest.cpp - zeros after the last offset -------------------===//

#include "FakeDriver.h"
#include "TestPackage.h"

#include <cstring>

using namespace ejk::test;
using nlohmann::json;

namespace {
class UnusedRows : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    create(glaManifest());
    call.params.zero_unused_rows = 1;
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  void create(const json &manifest) {
    ejk_executable_destroy(executable);
    executable = nullptr;
    PackagePtr package = load(manifest);
    ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  }
  std::string launch() { return take(ejk_launch(executable, 0, &call.params)); }

  ejk_executable *executable = nullptr;
  GlaCall call;
};
} // namespace

// Only o has a row for each step; ht has a state for each sequence.
TEST_F(UnusedRows, AreZeroedAfterTheKernelsOnTheirStream) {
  int stream;
  call.params.stream = &stream;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 3);
  EXPECT_STREQ(fake->launches[1].kernel, "scan_a6");
  EXPECT_STREQ(fake->launches[2].kernel, "ejk_zero_rows");
  EXPECT_EQ(fake->launches[2].stream, &stream);
  EXPECT_EQ(fake->synchronizations, 0);
}

TEST_F(UnusedRows, AreLeftAloneUnlessTheCallerAsks) {
  call.params.zero_unused_rows = 0;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->num_launches, 2);
  // A caller that was compiled before the field was there.
  call.params.zero_unused_rows = 1;
  call.params.struct_size = offsetof(ejk_launch_params, zero_unused_rows);
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->num_launches, 4);
}

TEST_F(UnusedRows, MustBeKnown) {
  json manifest = glaManifest();
  json twice = manifest["entries"][0]["inputs"][4];
  twice["name"] = "others";
  manifest["entries"][0]["inputs"].push_back(twice);
  create(manifest);
  EXPECT_EQ(launch(), "zero_unused_rows: entry 'gla' takes offsets twice, 'cu_seqlens' and "
                      "'others'");
  manifest = glaManifest();
  manifest["entries"][0]["inputs"][4]["total"] = 128;
  create(manifest);
  EXPECT_EQ(launch(), "zero_unused_rows: entry 'gla' has a fixed number of rows");
  EXPECT_EQ(fake->num_launches, 0);
}
