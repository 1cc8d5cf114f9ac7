//===- ChooseErrorsTest.cpp - choices that cannot be made -----------------===//

#include "ChooseFixture.h"

#include <gtest/gtest.h>

#include <cstddef>

using namespace ejk::test;
using nlohmann::json;

namespace {
class ChooseErrors : public Choose {
protected:
  json manifest = variantsManifest();
  json &variant(int v) { return manifest["entries"][0]["variants"][v]; }
  std::string workspaceBytes(GlaCall &call, size_t &bytes) {
    return take(ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &bytes));
  }
  // Divides by zero where H = 4.
  const json unusable = {"floordiv", "T", {"-", "H", 4}};
  GlaCall call;
  ejk_choice choice;
};
} // namespace

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(ChooseErrors, ArgumentsAreChecked) {
  open(manifest);
  choice = {};
  EXPECT_EQ(take(ejk_executable_choose(nullptr, 0, call.inputs, 6, nullptr, &choice)),
            "executable is NULL");
  EXPECT_EQ(take(ejk_executable_choose(executable, 0, call.inputs, 6, nullptr, nullptr)),
            "choice is NULL");
  EXPECT_CONTAINS(take(ejk_executable_choose(executable, 0, call.inputs, 6, nullptr, &choice)),
                  "ejk_choice");
  choice.struct_size = sizeof(choice);
  EXPECT_CONTAINS(take(ejk_executable_choose(executable, 7, call.inputs, 6, nullptr, &choice)),
                  "entry index 7 is out of range");
  EXPECT_CONTAINS(take(ejk_executable_choose(executable, 0, call.inputs, 5, nullptr, &choice)),
                  "takes 6 inputs");
  EXPECT_EQ(choice.schedule, nullptr);
}

TEST_F(ChooseErrors, ArgumentsOfVariantInfoAreChecked) {
  open(manifest);
  ejk_variant_info info = {};
  EXPECT_CONTAINS(take(ejk_entry_get_variant_info(nullptr, 0, 0, &info)), "package is NULL");
  EXPECT_CONTAINS(take(ejk_entry_get_variant_info(package.get(), 0, 0, nullptr)), "info is NULL");
  EXPECT_CONTAINS(take(ejk_entry_get_variant_info(package.get(), 0, 0, &info)), "ejk_variant_info");
}

// Each condition that a choice asks for, on a device and without one.
TEST_F(ChooseErrors, ANeedWithoutAValue) {
  variant(1)["needs"] = unusable;
  open(manifest);
  EXPECT_CONTAINS(choose(call, choice), "schedule 'chunk': its condition, floordiv(T, (H - 4))");
  size_t bytes = 7;
  EXPECT_CONTAINS(workspaceBytes(call, bytes), "it divides by zero");
  EXPECT_EQ(bytes, 7u);
  EXPECT_CONTAINS(call.check(package.get()), "it divides by zero");
}

TEST_F(ChooseErrors, AConditionWithoutAValueAndWithoutADevice) {
  variant(1)["needs"] = {"=", 1, 1};
  variant(1)["when"] = unusable;
  open(manifest);
  size_t bytes;
  EXPECT_CONTAINS(workspaceBytes(call, bytes), "schedule 'chunk': its condition");
}

// What the device gave is named beside what the inputs gave.
TEST_F(ChooseErrors, FactsOfTheDeviceAreNamed) {
  variant(0)["when"] = {"floordiv", "device.multiprocessors", {"-", "H", 4}};
  open(manifest);
  EXPECT_CONTAINS(choose(call, choice), "(device.multiprocessors = 10, 'q' gave H = 4)");
  ejk_executable_destroy(executable);
  executable = nullptr;
  variant(0)["when"] = {"floordiv", "H", {"-", "device.multiprocessors", 10}};
  open(manifest);
  EXPECT_CONTAINS(choose(call, choice), "('q' gave H = 4, device.multiprocessors = 10)");
}

TEST_F(ChooseErrors, AWorkspaceWithoutAValue) {
  variant(0)["when"] = {"=", 0, 1};
  variant(2)["workspace"][0]["bytes"] = unusable;
  open(manifest);
  EXPECT_CONTAINS(choose(call, choice), "workspace 'dk'");
  size_t bytes;
  EXPECT_CONTAINS(workspaceBytes(call, bytes), "workspace 'dk'");
}

TEST_F(ChooseErrors, ALaunchWhoseConditionHasNoValue) {
  variant(3)["launches"][0]["when"] = unusable;
  manifest["entries"][0]["variants"] = {variant(3)};
  open(manifest);
  const char *problem = "kernel 'prepare_a2': its condition, floordiv(T, (H - 4)), is unusable";
  EXPECT_CONTAINS(choose(call, choice), problem);
  EXPECT_CONTAINS(call.check(package.get()), problem);
  EXPECT_CONTAINS(take(ejk_launch(executable, 0, &call.params)), problem);
}

// Launches that are made are counted: neither those of no blocks, nor those whose grid has no
// value.
TEST_F(ChooseErrors, LaunchesWithoutBlocksAreNotCounted) {
  variant(3)["launches"][0]["grid"] = {"-", "H", 4};
  variant(3)["launches"].push_back(variant(3)["launches"][0]);
  variant(3)["launches"][2]["grid"] = unusable;
  manifest["entries"][0]["variants"] = {variant(3)};
  open(manifest);
  ASSERT_EQ(choose(call, choice), "");
  EXPECT_EQ(choice.num_kernels, 1u);
}

// A launch that depends on the device is checked as if it were made.
TEST_F(ChooseErrors, ALaunchThatDependsOnTheDevice) {
  json &launch = variant(3)["launches"][0];
  launch["when"] = {"<", "device.multiprocessors", 5};
  launch["args"].push_back({{"i64", unusable}});
  manifest["entries"][0]["variants"] = {variant(3)};
  open(manifest);
  EXPECT_CONTAINS(call.check(package.get()), "kernel 'prepare_a2': its argument");
  // Here it is not made.
  EXPECT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
  EXPECT_EQ(fake->num_launches, 1);
  EXPECT_STREQ(fake->launches[0].kernel, "scan_a6");
}

// A need of the device leaves all later variants possible; so does one that every size meets but
// that some device has too little shared memory for.
TEST_F(ChooseErrors, WithoutADeviceLaterVariantsStayPossible) {
  variant(0)["when"] = {"=", 1, 1};
  variant(0)["needs"] = {"<", "H", "device.multiprocessors"};
  open(manifest);
  size_t bytes;
  ASSERT_EQ(workspaceBytes(call, bytes), "");
  EXPECT_EQ(bytes, 128 * 1000u);
  variant(0).erase("needs");
  variant(0)["launches"][0]["shared_bytes"] = 100 << 10;
  package = load(manifest);
  ASSERT_EQ(workspaceBytes(call, bytes), "");
  EXPECT_EQ(bytes, 128 * 1000u);
  // Every sm_90a has that much, so that no later one is taken.
  manifest["arch"] = "sm_90a";
  package = load(manifest);
  ASSERT_EQ(workspaceBytes(call, bytes), "");
  EXPECT_EQ(bytes, 0u);
  // The last one may have conditions of other architectures' variants before it only.
  manifest["arch"] = "sm_90";
  manifest["entries"][0]["variants"] = {variant(3)};
  variant(0)["launches"][0]["shared_bytes"] = 100 << 10;
  package = load(manifest);
  ASSERT_EQ(workspaceBytes(call, bytes), "");
  EXPECT_EQ(bytes, 512 + 512u);
}

TEST_F(ChooseErrors, VariantsOfOtherArchitecturesAreNotPossible) {
  manifest.erase("arch");
  variant(2)["arch"] = "sm_80";
  variant(3).erase("workspace");
  for (json &launch : variant(3)["launches"])
    launch["args"] = json::array();
  std::vector<ejk::ImageData> images = {{ejk::Image::Kind::Ptx, "a", "sm_80"},
                                        {ejk::Image::Kind::Ptx, "b", "sm_90"}};
  std::string message;
  package = load(ejk::serializePackage(manifest, images), message);
  ASSERT_EQ(message, "");
  size_t bytes;
  ASSERT_EQ(workspaceBytes(call, bytes), "");
  EXPECT_EQ(bytes, 128 * 1000u); // of sm_80's
  ejk_variant_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(take(ejk_entry_get_variant_info(package.get(), 0, 2, &info)), "");
  EXPECT_STREQ(info.arch, "sm_80");
  ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  // sm_90's has no 'chunk' for grouped heads.
  EXPECT_CONTAINS(choose(call, choice, "chunk"), "it needs H = Hkv");
  EXPECT_STREQ(ejk_executable_arch(executable), "sm_90");
}

// A schedule that the device has no shared memory for is not among those that it has.
TEST_F(ChooseErrors, SchedulesThatTheDeviceCannotTakeAreNotNamed) {
  variant(0)["launches"][0]["shared_bytes"] = 120 << 10;
  fake->shared_optin = 99 << 10;
  open(manifest);
  EXPECT_EQ(choose(call, choice, "fast"),
            "entry 'gla': it has no schedule 'fast' on this device; it has 'chunk', 'step'");
}

TEST_F(ChooseErrors, OutputShapesNeedAPlace) {
  open(manifest);
  int32_t rank = 8;
  EXPECT_CONTAINS(take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 0, nullptr, &rank)),
                  "the shape array holds 0 dimensions, but output 'o' has 4");
}

TEST_F(ChooseErrors, EntriesAreNamed) {
  manifest["entries"].push_back(manifest["entries"][0]);
  manifest["entries"][1]["name"] = "gla_vjp";
  open(manifest);
  size_t entry = 7;
  EXPECT_EQ(take(ejk_package_find_entry(package.get(), "x", &entry)),
            "the package has no entry 'x'; it has: gla, gla_vjp");
  EXPECT_EQ(entry, 7u);
}

TEST_F(ChooseErrors, TheDeviceOfAnExecutable) {
  open(manifest);
  EXPECT_EQ(ejk_executable_device_type(executable), kDLCUDA);
  EXPECT_EQ(ejk_executable_device_type(nullptr), 0);
  EXPECT_STREQ(ejk_executable_arch(nullptr), "");
}

// Each architecture's failure is told.
TEST_F(ChooseErrors, NoImageLoads) {
  manifest.erase("arch");
  std::vector<ejk::ImageData> images = {{ejk::Image::Kind::Ptx, "BAD", "sm_80"},
                                        {ejk::Image::Kind::Ptx, "BAD", "sm_90"}};
  std::string message;
  package = load(ejk::serializePackage(manifest, images), message);
  ASSERT_EQ(message, "");
  std::string error = take(ejk_executable_create(package.get(), nullptr, &executable));
  EXPECT_CONTAINS(error, "\nand for sm_80: ");
  EXPECT_EQ(executable, nullptr);
}

TEST_F(ChooseErrors, OtherDevicesHaveNoMemory) {
  char byte = 0;
  void *data = &byte;
  EXPECT_CONTAINS(take(ejk_device_alloc(99, 1, &data)), "99");
  EXPECT_CONTAINS(take(ejk_device_free(99, data)), "99");
  EXPECT_CONTAINS(take(ejk_copy_to_device(99, data, data, 1)), "99");
  EXPECT_CONTAINS(take(ejk_copy_to_host(99, data, data, 1)), "99");
  EXPECT_CONTAINS(take(ejk_stream_synchronize(99, nullptr)), "99");
  EXPECT_EQ(data, &byte);
}

// What replaces an input is exactly its buffer, whether it may or must.
TEST_F(ChooseErrors, BuffersThatReplaceAPartOfAnInput) {
  json copy = copyManifest("copy_a3");
  copy["arch"] = "sm_90";
  for (bool inPlace : {false, true})
    for (int channels : {4, 2}) {
      copy["entries"][0]["outputs"][0]["shape"] = {"R", channels};
      copy["entries"][0]["outputs"][0]["in_place"] = inPlace;
      open(copy);
      int64_t in[2] = {8, 4}, out[2] = {8, channels};
      DLTensor x = {}, y = {};
      x.data = y.data = reinterpret_cast<void *>(uintptr_t(1) << 32);
      x.device = y.device = {kDLCUDA, 0};
      x.ndim = y.ndim = 2;
      x.dtype = y.dtype = f32;
      x.shape = in;
      y.shape = out;
      const DLTensor *inputs[] = {&x}, *outputs[] = {&y};
      auto check = [&] { return take(ejk_entry_check(package.get(), 0, inputs, 1, outputs, 1)); };
      const char *problem = inPlace ? "its memory must be exactly that of input 'x'"
                                    : "in place it must be exactly the same buffer";
      if (channels == 4)
        EXPECT_EQ(check(), "");
      else
        EXPECT_CONTAINS(check(), problem); // begins where the input begins, and ends before it
      y.byte_offset = 16;
      EXPECT_CONTAINS(check(), problem);
      ejk_executable_destroy(executable);
      executable = nullptr;
    }
}
