//===- ThreadsTest.cpp - how many threads compute, and how they share -----===//

#include "cpu/ThreadCount.h"
#include "cpu/Threads.h"

#include "Injection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

using namespace ejk;

namespace {
struct Count {
  std::atomic<int64_t> items{0}, calls{0};
};
void countItems(void *data, int64_t first, int64_t end) {
  static_cast<Count *>(data)->items += end - first;
  ++static_cast<Count *>(data)->calls;
}

/// Ends a new process. A fork cannot destroy its parent's threads, whose memory the leak sanitizer
/// reports.
[[noreturn]] void leave(int status) {
#ifdef EJK_SANITIZER_OWNS_MALLOC
  ::_exit(status);
#else
  std::exit(status); // writes what was counted of branches
#endif
}

/// In a new process: its threads with these variables, 98 where there is an error, and 99 where
/// they lose work.
[[noreturn]] void exitWithThreads(const char *own, const char *openMP) {
  setenv("EJK_NUM_THREADS", own, 1);
  setenv("OMP_NUM_THREADS", openMP, 1);
  Result<unsigned> threads = startThreads();
  if (!threads) {
    std::fputs(threads.error().message.c_str(), stderr);
    leave(98);
  }
  Count count;
  runOnThreads(1000, 4, countItems, &count);
  leave(count.items == 1000 ? int(*threads) : 99);
}

unsigned processors() {
  cpu_set_t set;
  unsigned all = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? unsigned(CPU_COUNT(&set)) : 0;
  return std::min(all, processorQuota().value_or(all));
}
} // namespace

// A process keeps its threads, so each number of threads is a process's own.
TEST(ThreadsOfAProcess, AreAsManyAsTheVariablesSay) {
  unsigned all = processors();
  for (auto [own, openMP, threads] :
       {std::tuple("1", "", 1u), {"3", "", 3u}, {"", "3", 3u}, {"", "3,2", 3u}, {"2", "3", 2u},
        {"2", "x", 2u}, {"", "", all}})
    EXPECT_EXIT(exitWithThreads(own, openMP), testing::ExitedWithCode(int(threads)), "")
        << own << " " << openMP;
}

TEST(ThreadsOfAProcess, AreRefusedWhereAVariableIsNoNumber) {
  for (const char *text : {"0", "-1", "x", "2x", "2,1", "1025", "99999999999999999999", " "})
    EXPECT_EXIT(exitWithThreads(text, "2"), testing::ExitedWithCode(98),
                "EJK_NUM_THREADS must be a number from 1 to 1024, but is '")
        << text;
  for (const char *text : {"0", "x", "x,2", ",2", "4;2"})
    EXPECT_EXIT(exitWithThreads("", text), testing::ExitedWithCode(98),
                "OMP_NUM_THREADS must be a number from 1 to 1024, but is '")
        << text;
}

// Four threads meet, of whom two may take part at once.
TEST(ThreadsOfAProcess, ALaunchMayTakeFewer) {
  EXPECT_EXIT(
      {
        setenv("EJK_NUM_THREADS", "4", 1);
        bool isRight = bool(startThreads());
        for (unsigned most : {1u, 2u, 3u}) {
          struct Shared {
            std::mutex mutex;
            std::set<std::thread::id> threads;
            int64_t items = 0;
          } shared;
          for (int i = 0; i < 20; ++i)
            runOnThreads(
                64, 1,
                [](void *data, int64_t first, int64_t end) {
                  auto *shared = static_cast<Shared *>(data);
                  std::this_thread::sleep_for(std::chrono::microseconds(50));
                  std::lock_guard<std::mutex> lock(shared->mutex);
                  shared->threads.insert(std::this_thread::get_id());
                  shared->items += end - first;
                },
                &shared, most);
          isRight &= shared.items == 20 * 64 && shared.threads.size() == most;
        }
        leave(isRight ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(ThreadsOfAProcess, WithoutAPoolTheCallerDoesTheWork) {
  EXPECT_EXIT(
      {
        Count count;
        runOnThreads(1000, 4, countItems, &count);
        leave(count.items == 1000 && count.calls == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// A fork has none of its parent's threads: it works alone, and then has its own.
TEST(ThreadsOfAProcess, AForkHasItsOwn) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the thread sanitizer lets no fork of several threads start one";
#endif
#endif
  ASSERT_TRUE(startThreads());
  EXPECT_EXIT(
      {
        Count count;
        runOnThreads(1000, 4, countItems, &count);
        if (count.items != 1000 || count.calls != 1)
          leave(1);
        setenv("EJK_NUM_THREADS", "2", 1);
        Result<unsigned> threads = startThreads();
        leave(threads && *threads == 2 ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

// What does not pay for waking a thread, and what comes while others work, the caller does alone.
TEST(ThreadsOfAProcess, SmallRangesAreNotDivided) {
  EXPECT_EXIT(
      {
        setenv("EJK_NUM_THREADS", "2", 1);
        bool isStarted = bool(startThreads());
        Count count;
        runOnThreads(1, 4, countItems, &count);
        bool isWhole = isStarted && count.calls == 1;
        struct Nested {
          Count inner;
          std::atomic<int> whole{0};
        } nested;
        runOnThreads(
            2, 1,
            [](void *data, int64_t, int64_t) {
              Count inner;
              runOnThreads(100, 1, countItems, &inner);
              static_cast<Nested *>(data)->whole += inner.calls == 1 && inner.items == 100;
            },
            &nested);
        leave(isWhole && nested.whole == 2 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

namespace {
/// One launch's items, which wait for another launch.
struct WaitingLaunch {
  std::atomic<bool> runs{false}, mayEnd{false};
  std::atomic<int64_t> items{0};

  static void body(void *data, int64_t begin, int64_t end) {
    auto *launch = static_cast<WaitingLaunch *>(data);
    launch->runs = true;
    while (!launch->mayEnd)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    launch->items += end - begin;
  }
};

[[noreturn]] void exitWithTwoLaunches() {
  ::alarm(60); // where both would wait for the same threads
  setenv("EJK_NUM_THREADS", "2", 1);
  bool isStarted = bool(startThreads());
  WaitingLaunch first;
  Count second;
  std::thread other([&] {
    while (!first.runs)
      std::this_thread::yield();
    runOnThreads(1000, 1, countItems, &second);
    first.mayEnd = true;
  });
  runOnThreads(8, 1, WaitingLaunch::body, &first);
  other.join();
  leave(isStarted && first.items == 8 && second.items == 1000 && second.calls == 1 ? 0 : 1);
}
} // namespace

// While one launch computes, another one's caller does its own work alone: the pool has one job.
TEST(ThreadsOfAProcess, ASecondLaunchTakesNoPartOfTheFirst) {
  EXPECT_EXIT(exitWithTwoLaunches(), testing::ExitedWithCode(0), "");
}

#ifndef EJK_SANITIZER_OWNS_MALLOC
/// Whether a thread takes long from its last look at what it waits for to its sleep.
static std::atomic<bool> fallsAsleepSlowly{false};
static std::atomic<bool> fallsAsleep{false};

/// In the place of the C library's, for the tests' whole process.
extern "C" int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  using Wait = int (*)(pthread_cond_t *, pthread_mutex_t *);
  static Wait wait = reinterpret_cast<Wait>(::dlsym(RTLD_NEXT, "pthread_cond_wait"));
  if (fallsAsleepSlowly) {
    fallsAsleep = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return wait(condition, mutex);
}

[[noreturn]] static void exitWithAJobWhileAThreadFallsAsleep() {
  ::alarm(60); // where a wake-up is lost
  setenv("EJK_NUM_THREADS", "2", 1);
  fallsAsleepSlowly = true;
  bool isStarted = bool(startThreads());
  while (!fallsAsleep)
    std::this_thread::yield();
  Count count;
  runOnThreads(1000, 1, countItems, &count);
  leave(isStarted && count.items == 1000 ? 0 : 1);
}

// A job that comes while a thread falls asleep wakes it all the same.
TEST(ThreadsOfAProcess, AJobWakesAThreadThatFallsAsleep) {
  EXPECT_EXIT(exitWithAJobWhileAThreadFallsAsleep(), testing::ExitedWithCode(0), "");
}
#endif

//===----------------------------------------------------------------------===//
// Quotas of control groups
//===----------------------------------------------------------------------===//

namespace {
/// A file system with what a process may read of its control groups.
class Quota : public testing::Test {
protected:
  void SetUp() override {
    root = testing::TempDir() + "ejk_quota_" + std::to_string(::getpid());
    std::filesystem::remove_all(root);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }
  int quota() { return int(processorQuota(root).value_or(0)); }

  std::string root;
};
} // namespace

TEST_F(Quota, IsNoneWhereNoneIsSet) {
  EXPECT_EQ(quota(), 0);
  write("/proc/self/cgroup", "0::/user.slice");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  write("/proc/self/cgroup", "3:cpu:/\nnonsense\n1:memory:/a");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0);
}

TEST_F(Quota, OfVersion2IsTheLeastOfTheGroupAndThoseAboveIt) {
  write("/proc/self/cgroup", "0::/a/b");
  write("/sys/fs/cgroup/a/b/cpu.max", "800000 100000");
  EXPECT_EQ(quota(), 8);
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000"); // a processor and a half
  EXPECT_EQ(quota(), 2);
  write("/sys/fs/cgroup/cpu.max", "10000 100000");
  EXPECT_EQ(quota(), 1);
  write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Quota, OfAContainerStandsAtTheTopOfItsMount) {
  write("/proc/self/cgroup", "0::/docker/of-the-host");
  write("/sys/fs/cgroup/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 3);
}

TEST_F(Quota, OfVersion1) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/a\n2:cpuset:/other");
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000");
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000");
  EXPECT_EQ(quota(), 5);
  // A group of the sets of processors has no quota, though one of that name has.
  write("/sys/fs/cgroup/cpu/other/cpu.cfs_quota_us", "50000");
  write("/sys/fs/cgroup/cpu/other/cpu.cfs_period_us", "50000");
  EXPECT_EQ(quota(), 5);
}
