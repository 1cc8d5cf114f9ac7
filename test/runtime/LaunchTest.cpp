//===- LaunchTest.cpp - what reaches the driver ---------------------------===//

#include "FakeDriver.h"
#include "Injection.h"
#include "TestPackage.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

using namespace ejk::test;
using nlohmann::json;

// A sanitizer's allocator replaces malloc itself; then nothing is counted.
#ifndef EJK_SANITIZER_OWNS_MALLOC
#define EJK_COUNT_ALLOCATIONS 1
static std::atomic<long> allocations;
// Hidden, as other symbols are, they would count this program's alone.
#pragma GCC visibility push(default)
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return ++allocations, __libc_calloc(n, bytes); }
void *realloc(void *old, size_t bytes) { return ++allocations, __libc_realloc(old, bytes); }
}
#pragma GCC visibility pop
#endif

namespace {
class Launch : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    create(glaManifest());
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  void create(const json &manifest) {
    ejk_executable_destroy(executable);
    executable = nullptr;
    PackagePtr package = load(manifest);
    EXPECT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
    // The package is destroyed here; the executable must not need it.
  }
  std::string launch() { return take(ejk_launch(executable, 0, &call.params)); }
  uint64_t address(int tensor) { return reinterpret_cast<uint64_t>(call.tensors[tensor].data); }

  ejk_executable *executable = nullptr;
  GlaCall call;
};
} // namespace

TEST_F(Launch, GridsAndArguments) {
  call.q().byte_offset = 64;
  int stream;
  call.params.stream = &stream;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 2);
  const fake_launch &prepare = fake->launches[0], &scan = fake->launches[1];
  EXPECT_STREQ(prepare.kernel, "prepare_a2");
  EXPECT_EQ(prepare.grid[0], 2u); // ceildiv(128, 100)
  EXPECT_EQ(prepare.block[0], 256u);
  EXPECT_EQ(prepare.args[0], address(3));
  EXPECT_EQ(prepare.args[1], uint64_t(100) << 32);
  EXPECT_STREQ(scan.kernel, "scan_a6");
  EXPECT_EQ(scan.grid[0], 3u * 4 * 2);
  EXPECT_EQ(scan.grid[1], 1u);
  EXPECT_EQ(scan.shared_bytes, 65536u);
  EXPECT_EQ(scan.stream, &stream);
  EXPECT_EQ(scan.args[0], address(0) + 64);
  EXPECT_EQ(scan.args[1], address(7));
  EXPECT_EQ(scan.args[2], (uint64_t(100) << 32) + 512);
  EXPECT_EQ(scan.args[3], 128u);
  EXPECT_EQ(scan.args[4], 128u);
  EXPECT_EQ(int64_t(scan.args[5]), -1);
  EXPECT_EQ(fake->synchronizations, 0);
}

// Trap 10: offsets that lie on the device, here at an address where nothing is, are
// neither read nor waited for, so a graph can hold a launch of packed sequences.
TEST_F(Launch, PackedSequencesAreCaptured) {
  int stream;
  void *graph = nullptr;
  call.params.stream = &stream;
  ASSERT_EQ(call.cu().device.device_type, kDLCUDA);
  beginCapture(&stream, 0);
  EXPECT_EQ(launch(), "");
  endCapture(&stream, &graph);
  EXPECT_EQ(fake->captured_launches, 2);
  EXPECT_EQ(fake->num_launches, 2);
  EXPECT_EQ(fake->synchronizations, 0);
}

// Of q by heads, of o by rows, and of the states, which lie at 512 in the workspace.
static json manifestWithTensorMaps() {
  json manifest = glaManifest();
  json &args = manifest["entries"][0]["launches"][1]["args"];
  args[0] = json::parse(R"({"tensor_map": {"input": 0}, "dtype": "bf16",
    "sizes": ["B", "H", "T", 128],
    "strides": [["*", ["*", "T", "H"], 128], 128, ["*", "H", 128]], "box": [1, 2, 32, 64]})");
  args[1] = json::parse(R"({"tensor_map": {"output": 0}, "dtype": "f16",
    "sizes": ["T", ["*", "H", 64]], "strides": [["*", "H", 64]], "box": [64, 8]})");
  args[2] = json::parse(R"({"tensor_map": {"workspace": 1}, "dtype": "f32",
    "sizes": ["N", 24], "strides": [24], "box": [1, 32]})");
  return manifest;
}

namespace {
/// The innermost dimension first, strides in bytes.
struct ExpectedMap {
  uint64_t address;
  int type;
  unsigned rank;
  uint64_t sizes[5], strides[4];
  unsigned box[5];
};
} // namespace

static void expectMap(const fake_tensor_map &map, const ExpectedMap &expected) {
  EXPECT_EQ(map.address, expected.address);
  EXPECT_EQ(map.type, expected.type);
  ASSERT_EQ(map.rank, expected.rank);
  for (unsigned i = 0; i < map.rank; ++i) {
    EXPECT_EQ(map.sizes[i], expected.sizes[i]) << i;
    EXPECT_EQ(map.box[i], expected.box[i]) << i;
    EXPECT_EQ(map.element_strides[i], 1u) << i;
  }
  for (unsigned i = 0; i + 1 < map.rank; ++i)
    EXPECT_EQ(map.strides[i], expected.strides[i]) << i;
  EXPECT_EQ(map.interleave, 0);
  EXPECT_EQ(map.swizzle, 3);   // 128 bytes
  EXPECT_EQ(map.promotion, 3); // 256 bytes
  EXPECT_EQ(map.fill, 0);
}

TEST_F(Launch, TensorMapsReachTheKernel) {
  create(manifestWithTensorMaps());
  call.q().byte_offset = 64;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 2);
  EXPECT_EQ(fake->launches[0].num_maps, 0);
  const fake_launch &scan = fake->launches[1];
  ASSERT_EQ(scan.num_maps, 3);
  const ExpectedMap expected[] = {
      {address(0) + 64, 9, 4, {128, 128, 4, 1}, {1024, 256, 131072}, {64, 32, 2, 1}},
      {address(6), 6, 2, {256, 128}, {512}, {8, 64}},
      {(uint64_t(100) << 32) + 512, 7, 2, {24, 3}, {96}, {32, 1}}};
  for (int i = 0; i < 3; ++i) {
    expectMap(scan.maps[i], expected[i]);
    EXPECT_EQ(scan.maps[i].context, scan.context);
  }
  // The arguments after them are still their own.
  EXPECT_EQ(scan.args[3], 128u);
  EXPECT_EQ(int64_t(scan.args[5]), -1);
}

TEST_F(Launch, TensorMapsOfTheLeastAndTheGreatestRank) {
  json manifest = manifestWithTensorMaps();
  json &args = manifest["entries"][0]["launches"][1]["args"];
  args[0] = json::parse(R"({"tensor_map": {"input": 0}, "dtype": "bf16",
    "sizes": [["*", "T", 512]], "strides": [], "box": [64]})");
  args[1] = json::parse(R"({"tensor_map": {"output": 1}, "dtype": "f32",
    "sizes": ["N", "H", 2, 64, 64], "strides": [["*", "H", 8192], 8192, 4096, 64],
    "box": [1, 3, 2, 16, 32]})");
  create(manifest);
  ASSERT_EQ(launch(), "");
  const fake_launch &scan = fake->launches[1];
  ASSERT_EQ(scan.num_maps, 3);
  expectMap(scan.maps[0], {address(0), 9, 1, {65536}, {}, {64}});
  expectMap(scan.maps[1],
            {address(7), 7, 5, {64, 64, 2, 4, 3}, {256, 16384, 32768, 131072}, {32, 16, 2, 3, 1}});
}

// The driver takes no empty tensors, and the device no address of no memory, even for a box that
// lies outside. Some that is written there is, ht here.
TEST_F(Launch, TensorMapsOfEmptyTensors) {
  create(manifestWithTensorMaps());
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = 0;
  call.q().data = call.o().data = nullptr;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 1);
  const fake_launch &scan = fake->launches[0];
  ASSERT_EQ(scan.num_maps, 3);
  expectMap(scan.maps[0], {address(7), 9, 4, {1, 1, 1, 1}, {16, 16, 16}, {64, 32, 2, 1}});
  expectMap(scan.maps[1], {address(7), 6, 2, {1, 1}, {16}, {8, 64}});
  EXPECT_EQ(scan.maps[2].sizes[1], 3u);
}

// Of the greatest rank, so that a stride too many would reach the box.
TEST_F(Launch, TensorMapsOfEmptyTensorsOfTheGreatestRank) {
  json manifest = manifestWithTensorMaps();
  manifest["entries"][0]["launches"][1]["args"][0] = json::parse(R"({"tensor_map": {"input": 0},
    "dtype": "bf16", "sizes": ["T", "H", 2, 8, 8], "strides": [["*", "H", 128], 128, 64, 8],
    "box": [1, 3, 2, 4, 8]})");
  create(manifest);
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = 0;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 1);
  expectMap(fake->launches[0].maps[0],
            {address(7), 9, 5, {1, 1, 1, 1, 1}, {16, 16, 16, 16}, {8, 4, 2, 3, 1}});
}

TEST_F(Launch, SkippedKernelsHaveNoTensorMaps) {
  json manifest = manifestWithTensorMaps();
  json &launches = manifest["entries"][0]["launches"];
  // With -1 rows it could not be made.
  launches[0]["args"][0] = launches[1]["args"][0];
  launches[0]["args"][0]["sizes"][2] = {"-", "T", 1};
  create(manifest);
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = 0;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->num_encodings, 3);
  ASSERT_EQ(fake->num_launches, 1);
  // The maps of the second kernel are still its own.
  EXPECT_EQ(fake->launches[0].num_maps, 3);
  EXPECT_EQ(fake->launches[0].maps[2].sizes[0], 24u);
}

TEST_F(Launch, TensorMapErrorsComeBeforeAnyLaunch) {
  const int64_t most = int64_t(1) << 39; // numbers of 16 bits in 2^40 bytes
  struct {
    const char *place;
    json value;
    const char *message;
  } cases[] = {
      {"sizes/2",
       {"-", "T", 129},
       "kernel 'scan_a6': its tensor map's size 2, T - 129, is unusable: a tensor map has sizes of "
       "0 to 2147483648 ('q' gave T = 128)"},
      {"sizes/0", (int64_t(1) << 31) + 1, "its tensor map's size 0, 2147483649, is unusable: a"},
      {"sizes/3", {"*", "T", int64_t(1) << 25}, "its tensor map's size 3, T * 33554432, is"},
      {"sizes/1", -8, "its tensor map's size 1, -8, is unusable: a tensor map has sizes of"},
      {"sizes/2", {"floordiv", "T", 0}, "its tensor map's size 2, "},
      {"strides/0",
       {"-", "T", 136},
       "kernel 'scan_a6': its tensor map's stride 0, T - 136, is unusable: a tensor map has "
       "strides of 0 to 1099511627775 bytes ('q' gave T = 128)"},
      {"strides/0", most, "its tensor map's stride 0, 549755813888, is unusable: a tensor map has"},
      {"strides/1", INT64_MAX, "its tensor map's stride 1, 9223372036854775807, is unusable: a"},
      {"strides/2",
       {"-", "T", 1},
       "its tensor map's stride 2, T - 1, is unusable: a tensor map's stride must be a multiple "
       "of 16 bytes ('q' gave T = 128)"},
      {"strides/1", 12, "its tensor map's stride 1, 12, is unusable: a tensor map's stride must"},
      {"strides/1", {"mod", "T", 0}, "its tensor map's stride 1, "},
  };
  const char *first = "/entries/0/launches/1/args/0/";
  for (const auto &c : cases) {
    json manifest = manifestWithTensorMaps();
    manifest[json::json_pointer(first + std::string(c.place))] = c.value;
    create(manifest);
    std::string message = launch();
    EXPECT_NE(message.find(c.message), std::string::npos) << c.place << ": " << message;
  }
  json manifest = manifestWithTensorMaps();
  for (const char *list : {"inputs", "outputs"})
    manifest["entries"][0][list][0]["align"] = 2;
  create(manifest);
  call.q().byte_offset = 8;
  EXPECT_EQ(launch(), "kernel 'scan_a6': the address of input 'q' is NULL or no multiple of 16 "
                      "bytes, which its tensor map needs");
  call.q().byte_offset = 0;
  call.o().byte_offset = 2;
  EXPECT_EQ(launch(), "kernel 'scan_a6': the address of output 'o' is NULL or no multiple of 16 "
                      "bytes, which its tensor map needs");
  call.o().byte_offset = 0;
  fake->fail_encoding = 1;
  EXPECT_EQ(launch(), "kernel 'scan_a6': cuTensorMapEncodeTiled failed: CUDA_ERROR_INVALID_VALUE "
                      "(fake)");
  EXPECT_EQ(fake->num_launches, 0);
  EXPECT_EQ(fake->pushes, fake->pops);
  fake->fail_encoding = 0;
  EXPECT_EQ(launch(), "");
  // The largest.
  json &map = manifest[json::json_pointer("/entries/0/launches/1/args/0")];
  map["sizes"] = {1, int64_t(1) << 31, {"*", "T", int64_t(1) << 24}, 128};
  map["strides"] = {most - 8, 0, 128};
  create(manifest);
  ASSERT_EQ(launch(), "");
  expectMap(fake->launches[3].maps[0], {address(0),
                                        9,
                                        4,
                                        {128, uint64_t(1) << 31, uint64_t(1) << 31, 1},
                                        {256, 0, (uint64_t(1) << 40) - 16},
                                        {64, 32, 2, 1}});
}

TEST_F(Launch, ContextIsSwitchedOnlyWhenItDiffers) {
  int before = fake->pushes;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->pushes, before + 1);
  EXPECT_EQ(fake->pops, fake->pushes);
  void *context = fake->launches[0].context;
  push(context);
  before = fake->pushes;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->pushes, before);
  pop(&context);
}

TEST_F(Launch, EmptyGridIsSkipped) {
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = 0;
  ASSERT_EQ(launch(), "");
  ASSERT_EQ(fake->num_launches, 1);
  // The arguments of the second kernel are still its own.
  EXPECT_STREQ(fake->launches[0].kernel, "scan_a6");
  EXPECT_EQ(fake->launches[0].args[1], address(7));
}

TEST_F(Launch, NothingToWriteIsNothingToDo) {
  json manifest = glaManifest();
  json &entry = manifest["entries"][0];
  entry["outputs"].erase(1);
  entry["launches"][1]["args"][1]["output"] = 0;
  create(manifest);
  call.params.num_outputs = 1;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->num_launches, 2);
  // The second kernel has a block for each head and sequence still.
  for (int i : {0, 1, 2, 3, 6})
    call.shapes[i][1] = 0;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(fake->num_launches, 2);
}

TEST_F(Launch, InPlace) {
  call.ht().data = call.h0().data;
  EXPECT_EQ(launch(), "");
  EXPECT_EQ(fake->launches[1].args[1], address(5));
}

TEST_F(Launch, NothingIsLaunchedOnAnError) {
  call.shapes[1][1] = 100;
  EXPECT_EQ(launch(), "input 'k': dimension 1 (T) is 100, but 'q' gave T = 128");
  GlaCall other;
  other.q().data = nullptr;
  EXPECT_NE(take(ejk_launch(executable, 0, &other.params)), "");
  EXPECT_EQ(fake->num_launches, 0);
}

TEST_F(Launch, Devices) {
  call.q().device = {kDLCPU, 0};
  EXPECT_EQ(launch(), "input 'q': it is in pageable host memory (kDLCPU), "
                      "expected CUDA device 0 or managed or pinned memory");
  call.q().device = {kDLCUDA, 1};
  EXPECT_EQ(launch(), "input 'q': it is in CUDA device 1, expected CUDA device "
                      "0 or managed or pinned memory");
  call.q().device = {kDLROCM, 0};
  EXPECT_NE(launch(), "");
  int32_t none = 99; // no enumerator of DLPack's
  std::memcpy(&call.q().device.device_type, &none, sizeof(none));
  EXPECT_EQ(launch(), "input 'q': it is in a device of DLPack type 99, expected CUDA device 0 or "
                      "managed or pinned memory");
  for (DLDeviceType type : {kDLCUDAHost, kDLCUDAManaged}) {
    call.q().device = {type, 0};
    EXPECT_EQ(launch(), "");
  }
}

TEST_F(Launch, Workspace) {
  call.params.workspace_bytes = 1023;
  EXPECT_EQ(launch(), "workspace: 1023 bytes were given, but 1024 are needed");
  call.params.workspace_bytes = 1024;
  call.params.workspace = nullptr;
  EXPECT_EQ(launch(), "workspace: it is NULL, but 1024 bytes are needed");
  call.params.workspace = reinterpret_cast<void *>(0x100);
  EXPECT_EQ(launch(), "");
  call.params.workspace = reinterpret_cast<void *>(0x110);
  EXPECT_EQ(launch(), "workspace: its address 0x110 is not aligned to 256 bytes");
  call.params.workspace = reinterpret_cast<void *>(UINTPTR_MAX - 255);
  EXPECT_EQ(launch(), "workspace: it reaches past the end of the address space");
  const char *names[] = {"input 'q'",          "input 'k'",  "input 'v'",  "input 'g'",
                         "input 'cu_seqlens'", "input 'h0'", "output 'o'", "output 'ht'"};
  for (int i = 0; i < 8; ++i) {
    call.params.workspace = call.tensors[i].data;
    EXPECT_EQ(launch(), std::string("workspace: it overlaps ") + names[i]);
  }
  EXPECT_EQ(fake->num_launches, 2);
}

TEST_F(Launch, GridsOutOfRangeAreErrorsBeforeAnyLaunch) {
  json manifest = glaManifest();
  manifest["entries"][0]["launches"][1]["grid"] = json::array({"*", "T", int64_t(1) << 40});
  create(manifest);
  std::string message = launch();
  EXPECT_NE(message.find("kernel 'scan_a6': its grid, T * 1099511627776"), std::string::npos)
      << message;
  EXPECT_EQ(fake->num_launches, 0);
}

TEST_F(Launch, DriverFailureNamesTheKernel) {
  fake->fail_launch = 1;
  ejk_error *error = ejk_launch(executable, 0, &call.params);
  EXPECT_EQ(ejk_error_get_code(error), EJK_ERROR_DRIVER);
  EXPECT_EQ(take(error), "kernel 'prepare_a2': cuLaunchKernel failed: "
                         "CUDA_ERROR_INVALID_VALUE (fake)");
  EXPECT_EQ(fake->pushes, fake->pops);
}

TEST_F(Launch, WrongCalls) {
  EXPECT_EQ(take(ejk_launch(nullptr, 0, &call.params)), "executable is NULL");
  EXPECT_EQ(take(ejk_launch(executable, 0, nullptr)), "params is NULL");
  EXPECT_NE(take(ejk_launch(executable, 1, &call.params)), "");
  call.params.struct_size = 0;
  EXPECT_NE(launch().find("ejk_launch_params.struct_size"), std::string::npos);
}

TEST_F(Launch, AllocatesNothingAndIsQuick) {
#ifndef EJK_COUNT_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer owns malloc";
#else
  create(manifestWithTensorMaps());
  ASSERT_EQ(launch(), "");
  constexpr int count = 1000;
  long before = allocations;
  auto begin = std::chrono::steady_clock::now();
  int failures = 0;
  for (int i = 0; i < count; ++i)
    failures += ejk_launch(executable, 0, &call.params) != nullptr;
  auto end = std::chrono::steady_clock::now();
  EXPECT_EQ(allocations - before, 0);
  // They would have been counted: an error has a message.
  call.params.struct_size = 0;
  EXPECT_NE(launch(), "");
  EXPECT_GT(allocations - before, 0);
  EXPECT_EQ(failures, 0);
  double micros = std::chrono::duration<double, std::micro>(end - begin).count() / count;
  RecordProperty("host_micros_per_launch", std::to_string(micros));
  std::printf("host time of a launch of two kernels, with three tensor maps: %.2f us\n", micros);
  // The bound for users is 5 us with the driver's own share; what is checked
  // leaves room for a machine that is busy with other things.
  EXPECT_LT(micros, 50);
#endif
}

TEST_F(Launch, ManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      GlaCall own;
      for (int i = 0; i < 200; ++i)
        if (ejk_error *error = ejk_launch(executable, 0, &own.params)) {
          ++failures;
          ejk_error_destroy(error);
        }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(fake->num_launches, 8 * 200 * 2);
  EXPECT_EQ(fake->pushes, fake->pops);
}

TEST_F(Launch, DeviceMemory) {
  void *data = nullptr;
  float host[] = {1, 2, 3}, back[3] = {};
  ASSERT_EQ(take(ejk_device_alloc(0, sizeof(host), &data)), "");
  EXPECT_EQ(take(ejk_copy_to_device(0, data, host, sizeof(host))), "");
  EXPECT_EQ(take(ejk_copy_to_host(0, back, data, sizeof(back))), "");
  EXPECT_EQ(back[2], 3);
  EXPECT_EQ(take(ejk_stream_synchronize(0, nullptr)), "");
  EXPECT_EQ(take(ejk_device_free(0, data)), "");
  EXPECT_EQ(take(ejk_device_free(0, nullptr)), "");
  EXPECT_EQ(fake->live_allocations, 0);
  for (size_t bytes : {0, 8})
    EXPECT_EQ(take(ejk_device_alloc(0, bytes, nullptr)), "data is NULL");
  EXPECT_EQ(take(ejk_copy_to_device(0, nullptr, host, 1)), "device is NULL");
  EXPECT_EQ(take(ejk_copy_to_device(0, data, nullptr, 1)), "host is NULL");
  EXPECT_EQ(take(ejk_copy_to_host(0, host, nullptr, 1)), "device is NULL");
  EXPECT_EQ(take(ejk_copy_to_host(0, nullptr, data, 1)), "host is NULL");
  EXPECT_EQ(take(ejk_copy_to_host(0, nullptr, nullptr, 0)), "");
  EXPECT_EQ(take(ejk_copy_to_device(0, nullptr, nullptr, 0)), "");
  ASSERT_EQ(take(ejk_device_alloc(0, 0, &data)), "");
  EXPECT_EQ(take(ejk_device_free(0, data)), "");
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_EQ(take(ejk_device_alloc(7, 1, &data)), "there is no CUDA device 7; the driver has 2");
  ejk_error *error = ejk_device_alloc(0, size_t(1) << 40, &data);
  EXPECT_EQ(ejk_error_get_code(error), EJK_ERROR_OUT_OF_MEMORY);
  take(error);
}
