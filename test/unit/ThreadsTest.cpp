//===- ThreadsTest.cpp - threads that do not start ------------------------===//
#include "dialect/reference/Threads.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <vector>

using namespace ejk::reference;

namespace {
/// No more memory is mapped while one lives, and a thread's stack is mapped.
class NoMoreMemory {
public:
  NoMoreMemory() {
    getrlimit(RLIMIT_AS, &before);
    rlimit none = {1, before.rlim_max};
    setrlimit(RLIMIT_AS, &none);
  }
  ~NoMoreMemory() { setrlimit(RLIMIT_AS, &before); }

private:
  rlimit before;
};
} // namespace

TEST(Threads, RunTheirBody) {
  bool ran = false;
  std::optional<std::thread> thread = startThread([&] { ran = true; });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_TRUE(ran);
}

TEST(Threads, NoneWhereTheSystemStartsNoMore) {
  // A thread that ended leaves a stack, which the next thread takes: threads until none is left.
  std::vector<std::thread> started;
  {
    NoMoreMemory limit;
    for (int i = 0; i < 1000; ++i) {
      std::optional<std::thread> thread = startThread([] {});
      if (!thread)
        break;
      started.push_back(std::move(*thread));
    }
  }
  for (std::thread &thread : started)
    thread.join();
  EXPECT_LT(started.size(), 1000u);
}
