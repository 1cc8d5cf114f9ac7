//===- UnusedRowsTest.cpp - zeros after the last offset -------------------===//

#include "CpuFixture.h"
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

// On a CPU: where the tensor's elements are, at its byte offset, and nowhere else.
TEST_F(Cpu, ZeroesRowsAfterTheLastOffset) {
  json manifest = numberManifest();
  json &entry = manifest["entries"][0];
  for (const char *list : {"inputs", "outputs"})
    entry[list][0]["shape"] = {"B", "R", 2};
  entry["launches"][0]["grid"] = {"*", "R", 2};
  entry["inputs"].push_back({{"name", "cu_seqlens"},
                             {"dtype", "i32"},
                             {"shape", {{"+", "N", 1}}},
                             {"align", 4},
                             {"role", "cu_seqlens"},
                             {"total", "R"}});
  for (bool wide : {false, true}) {
    entry["inputs"][1]["dtype"] = wide ? "i64" : "i32";
    entry["inputs"][1]["align"] = wide ? 8 : 4;
    open(packFor({"x86-64-v3"}, manifest));
    for (int last : {0, 5, 8}) {
      Call call(8); // of 4 numbers each: y's 16, and as many around them
      int64_t shape[] = {1, 8, 2}, numOffsets = 3;
      call.in.ndim = call.out.ndim = 3;
      call.in.shape = call.out.shape = shape;
      call.out.byte_offset = 16;
      // The offsets have a byte offset, too, which passes over the first number.
      int32_t narrow[] = {-1, 0, last / 2, last};
      int64_t broad[] = {-1, 0, last / 2, last};
      DLTensor cu = {};
      cu.data = wide ? static_cast<void *>(broad) : narrow;
      cu.byte_offset = wide ? sizeof(broad[0]) : sizeof(narrow[0]);
      cu.device = {kDLCPU, 0};
      cu.ndim = 1;
      cu.dtype = wide ? i64 : i32;
      cu.shape = &numOffsets;
      const DLTensor *inputs[] = {&call.in, &cu};
      call.params.inputs = inputs;
      call.params.num_inputs = 2;
      call.params.zero_unused_rows = 1;
      ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
      for (int i = 0; i < 32; ++i) {
        int element = i - 4;
        int expected = element < 2 * last ? element : 0;
        if (element < 0 || element >= 16)
          expected = -1; // not of the tensor
        EXPECT_EQ(call.y[size_t(i)], expected) << element << " of " << last;
      }
    }
    ejk_executable_destroy(executable);
    executable = nullptr;
  }
}
