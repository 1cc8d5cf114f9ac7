//===- FakeDriver.h - the fake driver, from tests ---------------*- C++ -*-===//

#ifndef EJK_TEST_RUNTIME_FAKEDRIVER_H
#define EJK_TEST_RUNTIME_FAKEDRIVER_H

#include "fake_cuda.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

namespace ejk::test {

/// A test with a driver in its first state. The fake is the library that the
/// runtime opens too, so both see one state.
class FakeDriverTest : public ::testing::Test {
protected:
  void SetUp() override {
    const char *path = std::getenv("EJK_CUDA_DRIVER");
    void *library = path ? dlopen(path, RTLD_NOW) : nullptr;
    ASSERT_NE(library, nullptr) << "EJK_CUDA_DRIVER must name the fake driver";
    fake = static_cast<fake_state *>(dlsym(library, "fake_cuda"));
    reinterpret_cast<void (*)()>(dlsym(library, "fake_reset"))();
    push = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxPushCurrent_v2"));
    pop = reinterpret_cast<int (*)(void **)>(dlsym(library, "cuCtxPopCurrent_v2"));
    beginCapture =
        reinterpret_cast<int (*)(void *, int)>(dlsym(library, "cuStreamBeginCapture_v2"));
    endCapture = reinterpret_cast<int (*)(void *, void **)>(dlsym(library, "cuStreamEndCapture"));
  }

  fake_state *fake = nullptr;
  int (*push)(void *) = nullptr;
  int (*pop)(void **) = nullptr;
  int (*beginCapture)(void *, int) = nullptr;
  int (*endCapture)(void *, void **) = nullptr;
};

} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_FAKEDRIVER_H
