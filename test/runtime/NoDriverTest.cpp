//===- NoDriverTest.cpp - a machine without a driver ----------------------===//

#include "TestPackage.h"

#include "harness/Harness.h"

#include <gtest/gtest.h>

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
