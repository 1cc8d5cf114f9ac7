//===- CpuImageTest.cpp - which code a CPU takes -------------------------===//

#include "CpuFixture.h"

#include "FakeDriver.h"
#include "Injection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include <unistd.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(CpuArchitectures, AreOrdered) {
  EXPECT_TRUE(isBetterCpuArchitecture("x86-64-v4", "x86-64-v3"));
  EXPECT_FALSE(isBetterCpuArchitecture("x86-64-v3", "x86-64-v4"));
  EXPECT_FALSE(isBetterCpuArchitecture("x86-64-v3", "x86-64-v3"));
  EXPECT_TRUE(isBetterCpuArchitecture("aarch64", "unknown"));
  EXPECT_FALSE(isBetterCpuArchitecture("unknown", "other"));
  EXPECT_FALSE(runsCpuArchitecture("unknown"));
  std::string best = bestCpuArchitecture();
  EXPECT_TRUE(best.empty() || runsCpuArchitecture(best)) << best;
}

namespace {
/// A package with code for a GPU, too, whose driver is the fake.
class MixedImages : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    if (!runsCpuArchitecture("x86-64-v3"))
      GTEST_SKIP() << "the code of these tests is for x86-64-v3";
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  void pack(const json &manifest, std::vector<std::string> cpus = {"x86-64-v3"}) {
    std::vector<ImageData> images = {{Image::Kind::Ptx, "for 80", "sm_80"}};
    for (const std::string &cpu : cpus) {
      images.push_back({Image::Kind::Cpu, numberBytes(), cpu});
      images.back().kernels = {{"number", 0}};
    }
    std::string message;
    package = load(serializePackage(manifest, images), message);
    ASSERT_EQ(message, "");
  }
  std::string create(int32_t type) {
    ejk_executable_destroy(executable);
    executable = nullptr;
    ejk_executable_options options = {};
    options.struct_size = sizeof(options);
    options.device_type = type;
    return take(ejk_executable_create(package.get(), &options, &executable));
  }

  PackagePtr package;
  ejk_executable *executable = nullptr;
};
} // namespace

TEST_F(MixedImages, GpusAndCpusTakeTheirOwn) {
  pack(numberManifest(), {"aarch64", "x86-64-v3"});
  ASSERT_EQ(create(0), "");
  EXPECT_EQ(ejk_executable_device_type(executable), kDLCUDA);
  EXPECT_STREQ(ejk_executable_arch(executable), "sm_80");
  ASSERT_EQ(create(kDLCPU), "");
  EXPECT_STREQ(ejk_executable_arch(executable), "x86-64-v3");
}

// Where there is no GPU, and only there.
TEST_F(MixedImages, ACpuServesWhereThereIsNoGpu) {
  pack(numberManifest());
  fake->device_count = 0;
  ASSERT_EQ(create(0), "");
  EXPECT_EQ(ejk_executable_device_type(executable), kDLCPU);
  EXPECT_NE(create(kDLCUDA), "");
  fake->device_count = 1;
  fake->major = 7;
  std::string error = create(0);
  EXPECT_CONTAINS(error, "compiled for sm_80 and runs on that architecture or later ones, but");
}

// A variant for one architecture is none of the other's.
TEST_F(MixedImages, VariantsOfTheOther) {
  json manifest = numberManifest();
  json &entry = manifest["entries"][0], launches = entry["launches"];
  entry.erase("launches");
  entry["variants"] = {{{"schedule", "chunk"}, {"arch", "sm_80"}, {"launches", launches}},
                       {{"schedule", "step"}, {"launches", launches}}};
  entry["variants"][0]["launches"][0]["kernel"] = "on_a_gpu_a2";
  pack(manifest);
  ASSERT_EQ(create(kDLCPU), "");
  ejk_variant_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(take(ejk_entry_get_variant_info(package.get(), 0, 0, &info)), "");
  EXPECT_STREQ(info.arch, "sm_80");
}

TEST_F(MixedImages, ACpusKernelTakesNoTensorMaps) {
  json manifest = boxesManifest("number");
  manifest.erase("arch");
  pack(manifest);
  EXPECT_EQ(create(kDLCPU), "kernel 'number' of a CPU takes tensor maps");
}

TEST_F(Cpu, TakesPinnedMemoryAndNoOtherDevices) {
  open(packFor({"x86-64-v3"}));
  Call call(3);
  call.in.device = {kDLCUDAHost, 0};
  ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
  EXPECT_TRUE(call.isNumbered());
  call.in.device = {kDLMetal, 2};
  EXPECT_CONTAINS(take(ejk_launch(executable, 0, &call.params)),
                  "input 'x': it is in a device of DLPack type 8, expected host memory (kDLCPU)");
}

TEST_F(Cpu, LeavesOutLaunchesWhoseConditionDoesNotHold) {
  json manifest = numberManifest();
  manifest["entries"][0]["launches"][0]["when"] = {">", "R", 5};
  open(packFor({"x86-64-v3"}, manifest));
  Call few(5), many(6);
  ASSERT_EQ(take(ejk_launch(executable, 0, &few.params)), "");
  EXPECT_EQ(few.y[0], -1);
  ASSERT_EQ(take(ejk_launch(executable, 0, &many.params)), "");
  EXPECT_TRUE(many.isNumbered());
}

// The second kernel writes what its own second argument names, whether or not the first one runs.
TEST_F(Cpu, ArgumentsAfterASkippedLaunchAreItsOwn) {
  json manifest = numberManifest();
  json &launches = manifest["entries"][0]["launches"];
  launches.insert(launches.begin(), launches[0]);
  launches[0]["args"] = {{{"output", 0}}, {{"input", 0}}};
  for (const char *skipped : {"condition", "grid"}) {
    launches[0]["when"] = {">", "R", skipped == std::string("condition") ? 5 : 0};
    launches[0]["grid"] = {"*", {"max", 0, {"-", "R", 5}}, 4};
    open(packFor({"x86-64-v3"}, manifest));
    Call few(5), many(6);
    ASSERT_EQ(take(ejk_launch(executable, 0, &few.params)), "");
    EXPECT_TRUE(few.isNumbered()) << skipped;
    EXPECT_EQ(few.x, std::vector<int32_t>(20)) << skipped;
    ASSERT_EQ(take(ejk_launch(executable, 0, &many.params)), "");
    EXPECT_TRUE(many.isNumbered()) << skipped;
    EXPECT_EQ(many.x[3], 3) << skipped;
    ejk_executable_destroy(executable);
    executable = nullptr;
  }
}

// Offsets of sequences lie in memory that is at hand, and no kernel runs on wrong ones.
TEST_F(Cpu, ChecksOffsetsOfSequences) {
  for (bool wide : {false, true}) {
    json manifest = numberManifest();
    manifest["entries"][0]["inputs"].push_back({{"name", "cu_seqlens"},
                                                {"dtype", wide ? "i64" : "i32"},
                                                {"shape", {{"+", "N", 1}}},
                                                {"align", wide ? 8 : 4},
                                                {"role", "cu_seqlens"},
                                                {"total", "R"}});
    open(packFor({"x86-64-v3"}, manifest));
    auto launch = [&](std::vector<int64_t> offsets) {
      std::vector<int32_t> narrow(offsets.begin(), offsets.end());
      Call call(128);
      int64_t size = int64_t(offsets.size());
      DLTensor cu = call.in;
      cu.data = wide ? static_cast<void *>(offsets.data()) : narrow.data();
      cu.dtype = wide ? i64 : i32;
      cu.ndim = 1;
      cu.shape = &size;
      const DLTensor *inputs[] = {&call.in, &cu};
      call.params.inputs = inputs;
      call.params.num_inputs = 2;
      std::string error = take(ejk_launch(executable, 0, &call.params));
      EXPECT_EQ(call.isNumbered(), error.empty());
      return error;
    };
    EXPECT_EQ(launch({1, 2, 3, 128}), "input 'cu_seqlens': entry 0 is 1, expected 0");
    EXPECT_EQ(launch({1}), "input 'cu_seqlens': entry 0 is 1, expected 0"); // of no sequence
    EXPECT_CONTAINS(launch({0, 50, 49, 128}), "entry 2 is 49, less than the entry before it");
    EXPECT_CONTAINS(launch({0, 2, 3, 129}), "the last entry is 129, expected at most R = 128");
    EXPECT_EQ(launch({0, 2, 3, 128}), "");
    ejk_executable_destroy(executable);
    executable = nullptr;
  }
}
