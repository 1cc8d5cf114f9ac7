//===- FailureTest.cpp - every allocation, read and driver call fails -----===//
//
// Each function of the C API is called again and again; the first time its
// first allocation fails, then its second, and so on until all have failed
// once. The same for calls on files and of the driver. Each time there is an
// error, nothing leaks, out parameters are untouched, and the next call works.
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"
#include "Injection.h"
#include "TestPackage.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include <unistd.h>

using namespace ejk::test;
using nlohmann::json;

template <typename T> static T *untouched() {
  static char mark;
  return reinterpret_cast<T *>(&mark);
}

namespace {
struct Operation {
  const char *name;
  std::function<ejk_error *()> run;
};

class Failure : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    bytes = pack(manifest());
    damaged = bytes;
    damaged.back() ^= 1;
    path = ::testing::TempDir() + "ejk_failure_" + std::to_string(::getpid()) + ".ejk";
    std::ofstream(path, std::ios::binary) << bytes;
    package = load(manifest());
  }
  void TearDown() override {
    ejk_executable_destroy(executable);
    std::remove(path.c_str());
  }

  // With a tensor map, so that all of a launch is tried.
  static json manifest() {
    json manifest = glaManifest();
    manifest["entries"][0]["launches"][1]["args"][0] = json::parse(
        R"({"tensor_map": {"input": 0}, "dtype": "bf16", "sizes": ["T", ["*", "H", 128]],
            "strides": [["*", "H", 128]], "box": [32, 64]})");
    return manifest;
  }

  std::vector<Operation> operations();
  template <typename Call> ejk_error *loadBy(Call call);
  ejk_error *create();
  ejk_error *deviceMemory();
  void tryAll(const Operation &operation, Failing what);
  void tryDriverCalls(const Operation &operation);
  long resources() { return liveBlocks() + fake->retained + fake->module_loads; }

  std::string bytes, damaged, path;
  PackagePtr package;
  ejk_executable *executable = nullptr;
  GlaCall call;
  bool outputsChanged = false; ///< by a call that failed
  long failures = 0;
};
} // namespace

template <typename Call> ejk_error *Failure::loadBy(Call call) {
  ejk_package *loaded = untouched<ejk_package>();
  ejk_error *error = call(&loaded);
  if (!error)
    ejk_package_destroy(loaded);
  else
    outputsChanged |= loaded != untouched<ejk_package>();
  return error;
}

ejk_error *Failure::create() {
  ejk_executable *created = untouched<ejk_executable>();
  ejk_error *error = ejk_executable_create(package.get(), nullptr, &created);
  fake->fail_call = 0; // no module can be unloaded where no context can be made current
  if (!error)
    ejk_executable_destroy(created);
  else
    outputsChanged |= created != untouched<ejk_executable>();
  return error;
}

ejk_error *Failure::deviceMemory() {
  void *data = untouched<void>();
  ejk_error *error = ejk_device_alloc(0, 8, &data);
  if (error) {
    outputsChanged |= data != untouched<void>();
    return error;
  }
  uint64_t host = 7;
  error = ejk_copy_to_device(0, data, &host, sizeof(host));
  if (!error)
    error = ejk_copy_to_host(0, &host, data, sizeof(host));
  if (!error)
    error = ejk_stream_synchronize(0, nullptr);
  ejk_error *freed = ejk_device_free(0, data);
  if (freed) {
    fake->fail_call = 0;
    ejk_error_destroy(ejk_device_free(0, data)); // a failure has freed nothing
  }
  if (!error)
    return freed;
  ejk_error_destroy(freed);
  return error;
}

std::vector<Operation> Failure::operations() {
  auto lookUp = [this] {
    size_t entry;
    const char *kernel;
    ejk_entry_info info = {};
    info.struct_size = sizeof(info);
    ejk_tensor_info tensor = {};
    tensor.struct_size = sizeof(tensor);
    ejk_error *error = ejk_package_find_entry(package.get(), "gla", &entry);
    if (!error)
      error = ejk_entry_get_info(package.get(), entry, &info);
    if (!error)
      error = ejk_entry_get_kernel_name(package.get(), entry, 0, &kernel);
    if (!error)
      error = ejk_entry_get_input_info(package.get(), entry, 0, &tensor);
    if (!error)
      error = ejk_entry_get_output_info(package.get(), entry, 0, &tensor);
    return error;
  };
  auto sizes = [this] {
    int64_t shape[8];
    int32_t rank = 8;
    size_t workspace;
    ejk_error *error = ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 1, shape, &rank);
    return error ? error : ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &workspace);
  };
  return {
      {"load_memory",
       [this] {
         return loadBy([this](ejk_package **out) {
           return ejk_package_load_memory(bytes.data(), bytes.size(), out);
         });
       }},
      {"load_file",
       [this] {
         return loadBy(
             [this](ejk_package **out) { return ejk_package_load_file(path.c_str(), out); });
       }},
      {"look up", lookUp},
      {"sizes", sizes},
      {"check",
       [this] { return ejk_entry_check(package.get(), 0, call.inputs, 6, call.outputs, 2); }},
      {"create", [this] { return create(); }},
      {"launch", [this] { return ejk_launch(executable, 0, &call.params); }},
      {"device memory", [this] { return deviceMemory(); }},
  };
}

void Failure::tryAll(const Operation &operation, Failing what) {
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(take(operation.run()), "") << operation.name; // also fills caches
  for (long n = 1;; ++n) {
    ASSERT_LT(n, 100000) << operation.name;
    long before = resources(), filesBefore = openFiles();
    outputsChanged = false;
    startFailing(what, n);
    ejk_error *error = operation.run();
    bool reached = stopFailing() >= n, failed = error != nullptr;
    ejk_error_code code = ejk_error_get_code(error);
    bool says = *ejk_error_message(error) != 0;
    ejk_error_destroy(error);
    long after = resources();
    std::string where = std::string(operation.name) + ", " + std::to_string(n);
    EXPECT_EQ(after, before) << where << ": something leaks";
    if (failed) {
      EXPECT_TRUE(reached) << where;
      EXPECT_TRUE(says) << where;
      EXPECT_EQ(code, what == Failing::oneFileCall ? EJK_ERROR_IO : EJK_ERROR_OUT_OF_MEMORY)
          << where;
    }
    failures += failed;
    EXPECT_FALSE(outputsChanged) << where;
    EXPECT_EQ(openFiles(), filesBefore) << where << ": a descriptor leaks";
    EXPECT_EQ(fake->pushes, fake->pops) << where;
    EXPECT_EQ(fake->live_allocations, 0) << where;
    if (!reached)
      return;
    EXPECT_EQ(take(operation.run()), "") << where << ": the call after it";
  }
}

TEST_F(Failure, EveryAllocation) {
  ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  for (const Operation &operation : operations())
    for (Failing what : {Failing::oneAllocation, Failing::allAllocations})
      tryAll(operation, what);
  EXPECT_GT(failures, 500);
}

// Errors are made of memory, too.
TEST_F(Failure, EveryAllocationOfAnError) {
  ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  call.shapes[1][1] = 100;
  size_t entry;
  ejk_package *loaded = nullptr;
  ejk_executable *created = nullptr;
  ejk_executable_options elsewhere = {};
  elsewhere.struct_size = sizeof(elsewhere);
  elsewhere.device_ordinal = 9;
  const Operation wrong[] = {
      {"damaged package",
       [&] { return ejk_package_load_memory(damaged.data(), damaged.size(), &loaded); }},
      {"no file", [&] { return ejk_package_load_file("/nonexistent/x.ejk", &loaded); }},
      {"no entry", [&] { return ejk_package_find_entry(package.get(), "x", &entry); }},
      {"wrong shape",
       [&] { return ejk_entry_check(package.get(), 0, call.inputs, 6, call.outputs, 2); }},
      {"no device", [&] { return ejk_executable_create(package.get(), &elsewhere, &created); }},
      {"wrong launch", [&] { return ejk_launch(executable, 0, &call.params); }},
      {"NULL", [&] { return ejk_device_alloc(0, 1, nullptr); }}};
  for (const Operation &operation : wrong)
    for (Failing what : {Failing::oneAllocation, Failing::allAllocations})
      for (long n = 1, reached = 1; reached; ++n) {
        ejk_error_destroy(operation.run());
        long before = resources();
        startFailing(what, n);
        ejk_error *error = operation.run();
        reached = stopFailing() >= n;
        bool says = *ejk_error_message(error) != 0;
        ejk_error_destroy(error);
        EXPECT_EQ(resources(), before) << operation.name << ", " << n << ": something leaks";
        EXPECT_TRUE(says) << operation.name << ", " << n;
      }
  EXPECT_EQ(loaded, nullptr);
  EXPECT_EQ(created, nullptr);
}

// The driver's library is opened by the first call of a process.
TEST_F(Failure, EveryAllocationWhileTheDriverIsOpened) {
  long n = 1;
  for (; n < 100000; ++n) {
    startFailing(Failing::oneAllocation, n);
    ejk_error *error = create();
    bool reached = stopFailing() >= n;
    if (!error && !reached)
      break;
    ejk_error_destroy(error);
    EXPECT_EQ(fake->retained, 0) << n;
    EXPECT_EQ(fake->module_loads, 0) << n;
    EXPECT_EQ(fake->pushes, fake->pops) << n;
  }
  EXPECT_LT(n, 100000);
}

TEST_F(Failure, EveryFileCall) {
  std::vector<Operation> all = operations();
  tryAll(all[1], Failing::oneFileCall);
  EXPECT_EQ(failures, 5); // open, fstat, and reads of the header, the rest and the end
}

TEST_F(Failure, InterruptedAndShortReadsAreNone) {
  std::vector<Operation> all = operations();
  for (long n = 1; n <= 4; ++n)
    for (Failing what : {Failing::interruptedCall, Failing::shortTransfers}) {
      startFailing(what, n);
      ejk_error *error = all[1].run();
      EXPECT_GE(stopFailing(), 3);
      EXPECT_EQ(take(error), "") << n;
    }
}

void Failure::tryDriverCalls(const Operation &operation) {
  for (int number = 1;; ++number) {
    long before = resources();
    outputsChanged = false;
    fake->calls = 0;
    fake->fail_call = number;
    fake->fail_result = 700;
    ejk_error *error = operation.run();
    bool reached = fake->calls >= number;
    fake->fail_call = 0;
    bool failed = error != nullptr;
    bool isDrivers = ejk_error_get_code(error) == EJK_ERROR_DRIVER &&
                     std::strstr(ejk_error_message(error), "failed: ");
    ejk_error_destroy(error);
    long after = resources();
    std::string where = std::string(operation.name) + ", call " + std::to_string(number);
    EXPECT_EQ(after, before) << where << ": something leaks";
    EXPECT_EQ(failed, isDrivers) << where;
    failures += failed;
    EXPECT_FALSE(outputsChanged) << where;
    EXPECT_EQ(fake->pushes, fake->pops) << where;
    EXPECT_EQ(fake->live_allocations, 0) << where;
    if (!reached)
      return;
    EXPECT_EQ(take(operation.run()), "") << where << ": the call after it";
  }
}

TEST_F(Failure, EveryDriverCall) {
  ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  for (const Operation &operation : operations()) {
    ASSERT_EQ(take(operation.run()), "") << operation.name;
    tryDriverCalls(operation);
  }
  EXPECT_GT(failures, 20);
  // The driver's own words for a failure may be missing, too.
  fake->calls = 0;
  fake->fail_call = 1;
  fake->fail_result = 700;
  EXPECT_NE(take(create()), "");
}
