//===- CallTest.cpp - operands against the manifest, with no driver -------===//
//
// One test for each kind of bad input: the message names the operand, what was
// expected and what was given.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace ejk::test;
using nlohmann::json;

namespace {
class Call : public ::testing::Test {
protected:
  std::string check() { return call.check(package.get()); }

  GlaCall call;
  PackagePtr package = load(glaManifest());
};
} // namespace

TEST_F(Call, ValidOperandsPass) {
  EXPECT_EQ(check(), "");
  // Strides of one element say nothing, whatever they are.
  int64_t strides[] = {7, 4 * 128, 128, 1};
  call.q().strides = strides;
  EXPECT_EQ(check(), "");
}

TEST_F(Call, MismatchedDimension) {
  call.shapes[1][1] = 100;
  EXPECT_EQ(check(), "input 'k': dimension 1 (T) is 100, but 'q' gave T = 128");
}

TEST_F(Call, StaticDimension) {
  call.shapes[0][3] = 64;
  EXPECT_EQ(check(), "input 'q': dimension 3 is 64, expected 128");
}

TEST_F(Call, NegativeDimension) {
  call.shapes[0][1] = -5;
  EXPECT_EQ(check(), "input 'q': dimension 1 (T) is -5, which is negative");
}

TEST_F(Call, WrongRank) {
  call.g().ndim = 3;
  EXPECT_EQ(check(), "input 'g': rank is 3, expected 4 [B, T, H, 128]");
}

TEST_F(Call, WrongElementType) {
  call.g().dtype = bf16;
  EXPECT_EQ(check(), "input 'g': element type is bf16, expected f32");
  call.g().dtype = {kDLUInt, 8, 1};
  EXPECT_EQ(check(), "input 'g': element type is DLPack type (code 1, 8 bits, "
                     "1 lanes), expected f32");
  call.g().dtype = {kDLFloat, 32, 2};
  EXPECT_NE(check(), "");
}

TEST_F(Call, WrongStateCount) {
  call.shapes[5][0] = 2;
  EXPECT_EQ(check(), "input 'h0': dimension 0 (N) is 2, but 'cu_seqlens' gave N = 3");
}

TEST_F(Call, WrongOutputShape) {
  call.shapes[6][1] = 1;
  EXPECT_EQ(check(), "output 'o': dimension 1 (T) is 1, but 'q' gave T = 128");
}

TEST_F(Call, KeyHeadsMustDivideQueryHeads) {
  call.shapes[1][2] = call.shapes[2][2] = 3;
  EXPECT_EQ(check(), "the key/value head count Hkv must divide the query head "
                     "count H, but 'q' gave H = 4, 'k' gave Hkv = 3");
  call.shapes[1][2] = call.shapes[2][2] = 0;
  EXPECT_NE(check().find("'k' gave Hkv = 0"), std::string::npos);
}

TEST_F(Call, PackedSequencesNeedBatchOne) {
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][0] = 2;
  EXPECT_EQ(check(), "packed sequences need a batch of B = 1, but 'q' gave B = 2");
}

TEST_F(Call, NoSequenceOffsets) {
  call.shapes[4][0] = 0;
  EXPECT_EQ(check(), "input 'cu_seqlens': dimension 0 (N + 1) is 0, expected "
                     "at least 1");
}

TEST_F(Call, SequenceOffsetsAreReadOnTheHost) {
  int32_t offsets[] = {0, 50, 50, 128};
  call.cu().data = offsets;
  call.cu().device = {kDLCPU, 0};
  EXPECT_EQ(check(), "");
  offsets[0] = 1;
  EXPECT_EQ(check(), "input 'cu_seqlens': entry 0 is 1, expected 0");
  offsets[0] = 0, offsets[2] = 49;
  EXPECT_EQ(check(), "input 'cu_seqlens': entry 2 is 49, less than the entry before it, "
                     "which is 50; the offsets must not decrease");
  offsets[2] = 50, offsets[3] = 100;
  EXPECT_EQ(check(), "");
  offsets[3] = 129;
  EXPECT_EQ(check(), "input 'cu_seqlens': the last entry is 129, expected at most T = "
                     "128");
}

TEST_F(Call, PointersMustBeAlignedAndPresent) {
  call.q().byte_offset = 8;
  EXPECT_EQ(check(), "input 'q': its address 0x100000008 is not aligned to 16 "
                     "bytes");
  call.q().byte_offset = 32;
  EXPECT_EQ(check(), "");
  call.q().data = nullptr;
  call.q().byte_offset = 0;
  EXPECT_EQ(check(), "input 'q': data is NULL");
  call.inputs[0] = nullptr;
  EXPECT_EQ(check(), "input 'q': the tensor is NULL");
}

TEST_F(Call, TensorsMustBeCompact) {
  int64_t strides[] = {128 * 512, 512, 1, 4};
  call.q().strides = strides;
  EXPECT_EQ(check(), "input 'q': the stride of dimension 3 is 4, expected 1: "
                     "the tensor must be compact and row-major");
}

TEST_F(Call, SizesMustNotOverflow) {
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = int64_t(1) << 60;
  EXPECT_EQ(check(), "input 'q': its size overflows 64 bits");
}

TEST_F(Call, CountsMustMatch) {
  call.params.num_inputs = 5;
  EXPECT_EQ(check(), "entry 'gla' takes 6 inputs (q, k, v, g, cu_seqlens, "
                     "h0), but 5 were given");
  call.params.num_inputs = 6;
  call.params.num_outputs = 0;
  EXPECT_EQ(check(), "entry 'gla' takes 2 outputs (o, ht), but 0 were given");
}

TEST_F(Call, OutputsOverlapNothingButWhatTheyMayReplace) {
  call.ht().data = call.h0().data; // decode in place
  EXPECT_EQ(check(), "");
  call.ht().byte_offset = 256;
  EXPECT_EQ(check(), "output 'ht': its memory overlaps a part of input 'h0'; in "
                     "place it must be exactly the same buffer");
  call.ht().data = call.o().data;
  EXPECT_EQ(check(), "output 'ht': its memory overlaps that of output 'o'");
  GlaCall other;
  other.o().data = other.q().data;
  EXPECT_EQ(other.check(package.get()),
            "output 'o': its memory overlaps that of input 'q', which it may "
            "not replace in place");
}

// Whatever a launch would refuse for the formulas of its kernels.
TEST_F(Call, FormulasOfLaunchesAreChecked) {
  const json map = json::parse(R"({"tensor_map": {"input": 0}, "dtype": "bf16",
    "sizes": ["T", ["*", "H", 128]], "strides": [["*", "H", 128]], "box": [32, 64]})");
  struct {
    const char *place;
    json value;
    const char *message;
  } cases[] = {
      {"launches/1/grid", {"*", "T", int64_t(1) << 40}, "kernel 'scan_a6': its grid, T * "},
      {"launches/1/grid", -1, "its grid, -1, is unusable: a grid has 0 to 2147483647 blocks"},
      {"launches/0/grid",
       {"floordiv", 1, {"-", "T", 128}},
       "it divides by zero ('q' gave T = 128)"},
      {"launches/1/args/3/i64", {"*", "T", INT64_MAX}, "its argument, T * 9223372036854775807"},
      {"launches/1/args/0/sizes/0", {"-", "T", 129}, "its tensor map's size 0, T - 129"},
      {"launches/1/args/0/strides/0", 12, "a tensor map's stride must be a multiple of 16 bytes"},
      {"workspace/0/bytes", -1, "the size of workspace 'sums', -1, is unusable: it is negative"},
      {"workspace/1/bytes", INT64_MAX, "the size of workspace 'states'"},
      {"outputs/0/shape/1", {"mod", "T", 0}, "output 'o': dimension 1 (T mod"},
  };
  for (const auto &c : cases) {
    json manifest = glaManifest();
    manifest["entries"][0]["launches"][1]["args"][0] = map;
    PackagePtr valid = load(manifest);
    EXPECT_EQ(call.check(valid.get()), "");
    manifest[json::json_pointer(std::string("/entries/0/") + c.place)] = c.value;
    PackagePtr changed = load(manifest);
    std::string message = call.check(changed.get());
    if (std::string(c.place) == "outputs/0/shape/1")
      EXPECT_NE(message, "");
    else
      EXPECT_NE(message.find(c.message), std::string::npos) << c.place << ": " << message;
  }
  json manifest = glaManifest();
  manifest["entries"][0]["launches"][1]["args"][0] = map;
  manifest["entries"][0]["inputs"][0]["align"] = 2;
  PackagePtr loose = load(manifest);
  call.q().byte_offset = 8;
  EXPECT_EQ(call.check(loose.get()),
            "kernel 'scan_a6': the address of input 'q' is NULL or no multiple of 16 bytes, which "
            "its tensor map needs");
}

// Where the workspace lies is known at the launch alone.
TEST_F(Call, MapsOfTheWorkspaceNeedNoWorkspace) {
  json manifest = glaManifest();
  manifest["entries"][0]["launches"][1]["args"][2] =
      json::parse(R"({"tensor_map": {"workspace": 1}, "dtype": "f32", "sizes": ["N", 24],
                      "strides": [24], "box": [1, 32]})");
  PackagePtr mapped = load(manifest);
  EXPECT_EQ(call.check(mapped.get()), "");
}

// A caller's number may be no enumerator.
TEST_F(Call, DeviceTypesThatDLPackDoesNotHave) {
  for (int32_t type : {-1, 0, 99, INT32_MAX}) {
    std::memcpy(&call.cu().device.device_type, &type, sizeof(type));
    EXPECT_EQ(check(), "");
  }
}

TEST_F(Call, OffsetsAreReadWhereverTheyLie) {
  json manifest = glaManifest();
  manifest["entries"][0]["inputs"][4]["dtype"] = "i64";
  manifest["entries"][0]["inputs"][4]["align"] = 8;
  PackagePtr wide = load(manifest);
  call.cu().dtype = i64;
  call.cu().device = {kDLCUDAHost, 0};
  alignas(8) int64_t offsets[] = {0, 50, 50, 128};
  call.cu().data = offsets;
  EXPECT_EQ(call.check(wide.get()), "");
  offsets[1] = -1;
  EXPECT_NE(call.check(wide.get()).find("entry 1 is -1, less than"), std::string::npos);
  call.cu().byte_offset = 4;
  EXPECT_NE(call.check(wide.get()).find("is not aligned to 8 bytes"), std::string::npos);
}

TEST_F(Call, EmptyTensorsNeedNoData) {
  for (int i : {0, 1, 2, 3, 6}) {
    call.shapes[i][1] = 0;
    call.tensors[i].data = nullptr;
  }
  EXPECT_EQ(check(), "");
}

TEST_F(Call, OutputShapesFollowFromInputs) {
  int64_t shape[8];
  int32_t rank = 8;
  for (int i = 0; i < 6; ++i)
    call.tensors[i].data = nullptr; // shapes suffice
  EXPECT_EQ(take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 1, shape, &rank)), "");
  ASSERT_EQ(rank, 4);
  EXPECT_EQ(std::vector<int64_t>(shape, shape + 4), (std::vector<int64_t>{3, 4, 128, 64}));
  rank = 3;
  EXPECT_NE(take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 1, shape, &rank)), "");
  // A size of zero is one.
  for (int i = 0; i < 4; ++i)
    call.shapes[i][1] = 0;
  rank = 8;
  EXPECT_EQ(take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 0, shape, &rank)), "");
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank), (std::vector<int64_t>{1, 0, 4, 64}));
}

TEST_F(Call, WorkspaceBuffersAreAligned) {
  size_t bytes = 0;
  EXPECT_EQ(take(ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &bytes)), "");
  EXPECT_EQ(bytes, 1024u); // 512, then 300 rounded up to 512
}

TEST_F(Call, DimensionsThatAreMultiples) {
  json manifest = copyManifest("copy_bytes_a3");
  manifest["entries"][0]["inputs"][0]["shape"] = json::array({json::array({"*", "R", 3}), 4});
  PackagePtr multiple = load(manifest);
  int64_t shape[] = {6, 4}, result[8];
  int32_t rank = 8;
  DLTensor x = {};
  x.ndim = 2, x.dtype = f32, x.shape = shape;
  const DLTensor *inputs[] = {&x};
  EXPECT_EQ(take(ejk_entry_output_shape(multiple.get(), 0, inputs, 1, 0, result, &rank)), "");
  EXPECT_EQ(result[0], 2);
  shape[0] = 7;
  EXPECT_EQ(take(ejk_entry_output_shape(multiple.get(), 0, inputs, 1, 0, result, &rank)),
            "input 'x': dimension 0 (R * 3) is 7, expected a multiple of 3");
}

TEST_F(Call, Introspection) {
  ejk_entry_info info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(take(ejk_entry_get_info(package.get(), 0, &info)), "");
  EXPECT_STREQ(info.name, "gla");
  EXPECT_EQ(info.num_inputs, 6u);
  EXPECT_EQ(info.num_kernels, 2u);
  ejk_tensor_info tensor = {};
  tensor.struct_size = sizeof(tensor);
  EXPECT_EQ(take(ejk_entry_get_input_info(package.get(), 0, 4, &tensor)), "");
  EXPECT_STREQ(tensor.role, "cu_seqlens");
  EXPECT_STREQ(tensor.shape, "[N + 1]");
  EXPECT_EQ(take(ejk_entry_get_output_info(package.get(), 0, 1, &tensor)), "");
  EXPECT_EQ(tensor.may_alias, 5);
  const char *kernel = nullptr;
  EXPECT_EQ(take(ejk_entry_get_kernel_name(package.get(), 0, 1, &kernel)), "");
  EXPECT_STREQ(kernel, "scan_a6");
  EXPECT_STREQ(ejk_package_arch(package.get()), "sm_90");
}

TEST_F(Call, WhatIsWrittenInPlaceHasItsInputsMemory) {
  nlohmann::json manifest = glaManifest();
  manifest["entries"][0]["outputs"][1]["in_place"] = true;
  PackagePtr inPlace = load(manifest);
  const std::string wrong =
      "output 'ht': it is written in place: its memory must be exactly that of "
      "input 'h0'";
  EXPECT_EQ(call.check(inPlace.get()), wrong);
  call.ht().data = call.h0().data;
  EXPECT_EQ(call.check(inPlace.get()), "");
  call.ht().byte_offset = 256;
  EXPECT_EQ(call.check(inPlace.get()), wrong);
}

TEST_F(Call, WrongCallsAreErrors) {
  size_t entry;
  ejk_entry_info info = {};
  EXPECT_EQ(take(ejk_package_find_entry(package.get(), "gsa", &entry)),
            "the package has no entry 'gsa'; it has: gla");
  EXPECT_EQ(take(ejk_entry_get_info(nullptr, 0, &info)), "package is NULL");
  EXPECT_NE(take(ejk_entry_get_info(package.get(), 1, &info)), "");
  EXPECT_NE(
      take(ejk_entry_get_info(package.get(), 0, &info)).find("ejk_entry_info.struct_size is 0"),
      std::string::npos);
  EXPECT_NE(take(ejk_package_load_memory(nullptr, 5, nullptr)), "");
  ejk_package_destroy(nullptr);
  ejk_error_destroy(nullptr);
  EXPECT_EQ(ejk_error_get_code(nullptr), EJK_OK);
}
