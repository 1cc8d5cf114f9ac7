//===- NoDriverTest.cpp - a machine without a driver ----------------------===//

#include "TestPackage.h"
#include "fake_cuda.h"

#include "harness/Harness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

using namespace ejk;
using namespace ejk::test;

static void expectRemedy(ejk_error *error) {
  EXPECT_EQ(ejk_error_get_code(error), EJK_ERROR_NO_DRIVER);
  std::string message = take(error);
  for (const char *part : {"no CUDA driver: tried /nonexistent/libcuda.so.1",
                           "Install the NVIDIA driver", "EJK_CUDA_DRIVER"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(NoDriver, EveryCallThatNeedsOneSaysSo) {
  PackagePtr package = load(glaManifest());
  ejk_executable *executable = nullptr;
  expectRemedy(ejk_executable_create(package.get(), nullptr, &executable));
  EXPECT_EQ(executable, nullptr);
  ejk_executable_destroy(executable);
  char byte;
  void *data = &byte;
  expectRemedy(ejk_device_alloc(0, 1, &data));
  EXPECT_EQ(data, &byte);
  expectRemedy(ejk_device_free(0, data));
  expectRemedy(ejk_copy_to_device(0, data, data, 1));
  expectRemedy(ejk_copy_to_host(0, data, data, 1));
  expectRemedy(ejk_stream_synchronize(0, nullptr));
}

TEST(NoDriver, TheRestWorks) {
  PackagePtr package = load(glaManifest());
  GlaCall call;
  EXPECT_EQ(call.check(package.get()), "");
  size_t bytes = 0;
  EXPECT_EQ(take(ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &bytes)), "");
}

TEST(NoDriver, Session) {
  Result<std::unique_ptr<DeviceSession>> session = DeviceSession::open();
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::NoDriver);
}

// A driver that was started has threads and handlers of its own, also where it then fails: these
// must not lose their code.
TEST(NoDriver, ALibraryThatWasStartedStaysOpen) {
  void *library = dlopen(EJK_FAKE_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  reinterpret_cast<void (*)()>(dlsym(library, "fake_reset"))();
  auto *fake = static_cast<fake_state *>(dlsym(library, "fake_cuda"));
  fake->fail_call = 1; // cuInit
  fake->fail_result = cudaErrorNoDevice;
  setenv("EJK_CUDA_DRIVER", EJK_FAKE_DRIVER, 1);
  Result<const Driver *> driver = loadDriver();
  setenv("EJK_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
  ASSERT_FALSE(driver);
  dlclose(library); // what this test opened
  EXPECT_NE(dlopen(EJK_FAKE_DRIVER, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

// After a failure the next call tries again, so one process can have several.
TEST(NoDriver, LibrariesThatAreNone) {
  auto openError = [](const char *library) {
    setenv("EJK_CUDA_DRIVER", library, 1);
    Result<const Driver *> driver = loadDriver();
    setenv("EJK_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
    return driver ? "" : driver.error().message;
  };
  std::string message = openError("libm.so.6");
  for (const char *part : {"the library that was found lacks cuInit, cuDriverGetVersion, ",
                           "cuEventElapsedTime; it is too old"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find("cuTensorMapEncodeTiled"), std::string::npos) << "it may be missing";

  void *library = dlopen(EJK_FAKE_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  reinterpret_cast<void (*)()>(dlsym(library, "fake_reset"))();
  auto *fake = static_cast<fake_state *>(dlsym(library, "fake_cuda"));
  auto initError = [&](int result) {
    fake->calls = 0;
    fake->fail_call = 1; // cuInit
    fake->fail_result = result;
    return openError(EJK_FAKE_DRIVER);
  };
  EXPECT_NE(initError(34).find("is the toolkit's stub"), std::string::npos);
  EXPECT_NE(initError(100).find("the CUDA driver finds no device: cuInit failed"),
            std::string::npos);
  EXPECT_NE(initError(1).find("no CUDA driver: cuInit failed: CUDA_ERROR_INVALID_VALUE (fake)"),
            std::string::npos);
  unsetenv("EJK_CUDA_DRIVER"); // the names that a driver has
  Result<const Driver *> installed = loadDriver();
  if (!installed && installed.error().code == ErrorCode::NoDriver) {
    EXPECT_NE(installed.error().message.find("tried libcuda.so.1 ("), std::string::npos);
    EXPECT_NE(installed.error().message.find(", then libcuda.so ("), std::string::npos);
  }
  if (!installed) {
    // The first name that there is a library of. One that is open already is found by its name.
    ASSERT_NE(dlopen(EJK_FAKE_INSTALLED_DRIVER, RTLD_NOW), nullptr) << dlerror();
    Result<const Driver *> driver = loadDriver();
    fake = static_cast<fake_state *>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda"));
    ASSERT_NE(fake, nullptr);
    ASSERT_TRUE(driver) << driver.error().message;
    // Failures that the driver has no words for.
    fake->calls = 0;
    fake->fail_call = 1;
    EXPECT_EQ((*driver)->describe(7), "unknown driver error 7 (fake)");
    fake->calls = 0;
    fake->fail_call = 2;
    EXPECT_EQ((*driver)->describe(1), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_FALSE(Device::retain(**driver, -1));
  }
}
