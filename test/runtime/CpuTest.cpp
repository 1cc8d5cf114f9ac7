//===- CpuTest.cpp - packages with code for CPUs --------------------------===//

#include "CpuFixture.h"

#include "cpu/Threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include <unistd.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

TEST_F(Cpu, RunsAKernelOnHostTensors) {
  open(packFor({"x86-64-v3"}));
  EXPECT_EQ(ejk_executable_device_type(executable), kDLCPU);
  EXPECT_STREQ(ejk_executable_arch(executable), "x86-64-v3");
  for (int64_t rows : {1, 2, 1000}) {
    Call call(rows);
    ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
    EXPECT_TRUE(call.isNumbered()) << rows;
  }
}

TEST_F(Cpu, IsTakenWhereThePackageHasNoOtherCode) {
  std::string message;
  package = load(packFor({"x86-64-v3"}), message);
  ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  EXPECT_EQ(ejk_executable_device_type(executable), kDLCPU);
}

TEST_F(Cpu, TakesTheBestInstructionSetThatItHas) {
  // What no processor is called is passed over, and so is what this one has not.
  open(packFor({"aarch64", "x86-64-v9", "x86-64-v3"}));
  EXPECT_STREQ(ejk_executable_arch(executable), "x86-64-v3");
  if (!runsCpuArchitecture("x86-64-v4"))
    return;
  ejk_executable_destroy(executable);
  executable = nullptr;
  open(packFor({"x86-64-v3", "x86-64-v4"}));
  EXPECT_STREQ(ejk_executable_arch(executable), "x86-64-v4");
}

TEST_F(Cpu, RefusesPackagesWithoutCodeForIt) {
  std::string message;
  package = load(packFor({"aarch64"}), message);
  EXPECT_EQ(create(kDLCPU), "the package is compiled for aarch64, and this CPU runs none of these; "
                            "compile it for this CPU's architecture, too (--target=cpu)");
  EXPECT_EQ(create(kDLCUDA), "the package is compiled for aarch64, not for GPUs; compile it with "
                             "--target=cuda, too");
  EXPECT_EQ(create(7), "device_type is 7, expected kDLCPU, kDLCUDA or 0 for either");
  package = load(pack(copyManifest("copy")), message);
  EXPECT_EQ(create(kDLCPU),
            "the package is compiled for sm_80, not for CPUs; compile it with --target=cpu, too");
}

TEST_F(Cpu, RefusesAnImageWithoutTheKernel) {
  std::string message;
  package = load(packFor({"x86-64-v3"}, numberManifest(), 0, "other"), message);
  EXPECT_EQ(create(kDLCPU), "kernel 'number' is not in the package's CPU image");
}

TEST_F(Cpu, RefusesKernelsOutsideTheImage) {
  for (uint64_t offset : {uint64_t(1000000), uint64_t(2), uint64_t(1) << 63}) {
    std::string message;
    EXPECT_EQ(load(packFor({"x86-64-v3"}, numberManifest(), offset), message), nullptr);
    EXPECT_NE(message.find("images[0].kernels.number"), std::string::npos) << message;
  }
}

TEST_F(Cpu, RefusesTensorsOfAGpu) {
  open(packFor({"x86-64-v3"}));
  Call call(3);
  call.out.device = {kDLCUDA, 1};
  EXPECT_EQ(take(ejk_launch(executable, 0, &call.params)),
            "output 'y': it is in CUDA device 1, expected host memory (kDLCPU)");
  EXPECT_EQ(call.y[0], -1);
}

TEST_F(Cpu, GivesTheWorkToTheCallersThreads) {
  open(packFor({"x86-64-v3"}));
  Call call(100);
  static int64_t calls;
  calls = 0;
  call.params.parallel_for = [](void *context, int64_t count, int64_t grain,
                                void (*body)(void *, int64_t, int64_t), void *data) {
    EXPECT_EQ(context, &calls);
    EXPECT_EQ(count, 400);
    EXPECT_EQ(grain, 4);
    for (int64_t first = 0; first < count; first += 7, ++calls)
      body(data, first, std::min(first + 7, count));
  };
  call.params.parallel_context = &calls;
  ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
  EXPECT_TRUE(call.isNumbered());
  EXPECT_EQ(calls, 58);
}

// With one thread, the caller does all of the work.
TEST_F(Cpu, TakesAsManyThreadsAsTheCallerWants) {
  open(packFor({"x86-64-v3"}));
  Call call(100);
  call.params.max_threads = 1;
  ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
  EXPECT_TRUE(call.isNumbered());
}

namespace {
/// Which threads run a kernel.
struct Observed {
  std::mutex mutex;
  std::set<std::thread::id> threads;
} observed;

void observe(const void *, int64_t, int64_t) {
  std::this_thread::sleep_for(std::chrono::microseconds(200)); // others come meanwhile
  std::lock_guard<std::mutex> lock(observed.mutex);
  observed.threads.insert(std::this_thread::get_id());
}

/// An image whose kernel is observe().
std::string packObserver() {
  auto address = reinterpret_cast<uint64_t>(&observe);
  std::string code = "\x48\xb8"; // mov rax, address
  code.append(reinterpret_cast<const char *>(&address), sizeof(address));
  ImageData image{Image::Kind::Cpu, code + "\xff\xe0", "x86-64-v3"}; // jmp rax
  image.kernels = {{"number", 0}};
  return serializePackage(numberManifest(), {image});
}
} // namespace

// A caller that has other work for the remaining processors keeps them.
TEST_F(Cpu, TakesNoMoreThreadsThanTheCallerWants) {
  // Of the library, unless an earlier test of this process made its threads.
  setenv("EJK_NUM_THREADS", "4", 1);
  open(packObserver());
  unsetenv("EJK_NUM_THREADS");
  Call call(64);
  auto threadsOf = [&](unsigned most) {
    observed.threads.clear();
    call.params.max_threads = most;
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
    return unsigned(observed.threads.size());
  };
  unsigned all = threadsOf(0);
  if (all < 2)
    GTEST_SKIP() << "the process may run on one processor alone";
  // Also where the caller was compiled before there was a field after max_threads.
  for (size_t size : {sizeof(call.params), offsetof(ejk_launch_params, zero_unused_rows)}) {
    call.params.struct_size = size;
    for (unsigned most : {1u, 2u, 3u})
      EXPECT_EQ(threadsOf(most), std::min(most, all)) << size;
  }
}

TEST_F(Cpu, UnderstandsParametersOfEarlierVersions) {
  open(packFor({"x86-64-v3"}));
  Call call(100);
  call.params.struct_size = offsetof(ejk_launch_params, parallel_for);
  call.params.parallel_for = [](void *, int64_t, int64_t, void (*)(void *, int64_t, int64_t),
                                void *) { ADD_FAILURE() << "was not given"; };
  ASSERT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
  EXPECT_TRUE(call.isNumbered());
}

TEST_F(Cpu, LaunchesFromManyThreadsAtOnce) {
  open(packFor({"x86-64-v3"}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        Call call(50 + i);
        wrong += !take(ejk_launch(executable, 0, &call.params)).empty() || !call.isNumbered();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Cpu, LaunchesNothingForEmptyTensors) {
  open(packFor({"x86-64-v3"}));
  Call call(0);
  EXPECT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

TEST(Threads, DivideARangeWithoutGapsOrRepeats) {
  ASSERT_TRUE(startThreads());
  for (int64_t count : {1, 3, 64, 1000})
    for (int64_t grain : {1, 4, 7, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      runOnThreads(
          count, grain,
          [](void *data, int64_t first, int64_t end) {
            for (int64_t i = first; i < end; ++i)
              ++(*static_cast<std::vector<std::atomic<int>> *>(data))[size_t(i)];
          },
          &seen);
      for (const std::atomic<int> &number : seen)
        ASSERT_EQ(number, 1) << count << " by " << grain;
    }
}

TEST(Threads, SeeEachJobWhereverTheyFallAsleep) {
  Result<unsigned> threads = startThreads();
  ASSERT_TRUE(threads);
  if (*threads < 2)
    GTEST_SKIP() << "the process may run on one processor alone";
  // A thread that misses one is waited for without end: then the alarm ends this process.
  ::alarm(60);
  std::atomic<int64_t> sum{0};
  auto start = std::chrono::steady_clock::now();
  int64_t jobs = 0;
  // Jobs come after waits of 0 to 200 microseconds: threads still poll, are about to sleep, or sleep.
  for (; std::chrono::steady_clock::now() - start < std::chrono::milliseconds(700); ++jobs) {
    auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(jobs * 97 % 200000);
    while (std::chrono::steady_clock::now() < until)
      ;
    runOnThreads(
        64, 1,
        [](void *data, int64_t first, int64_t end) {
          *static_cast<std::atomic<int64_t> *>(data) += end - first;
        },
        &sum);
  }
  ::alarm(0);
  EXPECT_EQ(sum, 64 * jobs);
}

TEST(Threads, WorkOnARangeTogether) {
  Result<unsigned> threads = startThreads();
  ASSERT_TRUE(threads);
  if (*threads < 2)
    GTEST_SKIP() << "the process may run on one processor alone";
  struct Meeting {
    std::atomic<int> here{0};
  } meeting;
  // Each waits for another, which one thread alone could not.
  runOnThreads(
      2, 1,
      [](void *data, int64_t, int64_t) {
        auto *meeting = static_cast<Meeting *>(data);
        ++meeting->here;
        while (meeting->here < 2)
          std::this_thread::yield();
      },
      &meeting);
  EXPECT_EQ(meeting.here, 2);
}
