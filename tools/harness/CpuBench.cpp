//===- CpuBench.cpp - timing on a CPU, against what the CPU can do --------===//
//
// What a kernel is measured against is measured in the same run, by as many threads: how many
// multiply-adds the cores do in a second, and how many bytes they copy.
//
//===----------------------------------------------------------------------===//

#include "TensorSet.h"

#include "cpu/Threads.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <thread>

using namespace ejk;

// Less than this is repeated within one measurement.
static constexpr double leastMicros = 2000;
static constexpr size_t copyBytes = size_t(64) << 20; // of each thread, more than caches have

static double microsOf(const std::function<void()> &work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// What all of the process's threads have used so far; other processes have no part in it.
static double processorMicros() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e6 + double(time.tv_nsec) * 1e-3;
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs `work` on `count` threads at once, the caller's among them.
static void onThreads(int count, const std::function<void(int)> &work) {
  std::vector<std::thread> others;
  for (int i = 1; i < count; ++i)
    others.emplace_back(work, i);
  work(0);
  for (std::thread &other : others)
    other.join();
}

//===----------------------------------------------------------------------===//
// Multiply-adds
//===----------------------------------------------------------------------===//

// Sums that do not wait for one another: more than latency times rate of any core (8 to 10), and
// no more than 16 registers hold beside two operands. A sum on the stack would wait for its store.
static constexpr int sums = 12;
static constexpr int rounds = 100000;

// One function for each instruction set: what a function may use is part of it.
#define EJK_MULTIPLY_ADDS(NAME, BYTES, ATTRIBUTES)                                                 \
  ATTRIBUTES static float NAME() {                                                                 \
    typedef float Vector __attribute__((vector_size(BYTES)));                                      \
    Vector sum[sums], factor, step;                                                                \
    for (int lane = 0; lane < BYTES / 4; ++lane) {                                                 \
      factor[lane] = 0.9999f;                                                                      \
      step[lane] = 1e-4f;                                                                          \
    }                                                                                              \
    for (Vector & s : sum)                                                                         \
      s = step;                                                                                    \
    for (int i = 0; i < rounds; ++i)                                                               \
      for (Vector & s : sum)                                                                       \
        s = s * factor + step;                                                                     \
    Vector all = sum[0];                                                                           \
    for (int i = 1; i < sums; ++i)                                                                 \
      all += sum[i];                                                                               \
    return all[0];                                                                                 \
  }
#if defined(__x86_64__)
EJK_MULTIPLY_ADDS(multiplyAdds16, 64, [[gnu::target("avx512f")]])
EJK_MULTIPLY_ADDS(multiplyAdds8, 32, [[gnu::target("avx2,fma")]])
#endif
EJK_MULTIPLY_ADDS(multiplyAdds4, 16, )

// Operations a second; a multiply-add is two.
static double measureFmaFlops(int threads) {
  float (*run)() = multiplyAdds4;
  double lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    run = multiplyAdds16, lanes = 16;
  else if (__builtin_cpu_supports("fma"))
    run = multiplyAdds8, lanes = 8;
#endif
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    volatile float kept = 0;
    double micros = microsOf([&] {
      onThreads(threads, [&](int) {
        float result = run();
        if (result < 0)
          kept = result;
      });
    });
    best = std::max(best, 2.0 * lanes * sums * rounds * threads / (micros * 1e-6));
  }
  return best;
}

static double measureCpuCopy(int threads) {
  std::vector<std::vector<char>> from(threads), to(threads);
  onThreads(threads, [&](int i) {
    from[i].assign(copyBytes, 1);
    to[i].assign(copyBytes, 2);
  });
  double best = 0;
  for (int r = 0; r < 8; ++r) {
    double micros = microsOf([&] {
      onThreads(threads, [&](int i) { std::memcpy(to[i].data(), from[i].data(), copyBytes); });
    });
    best = std::max(best, 2.0 * double(copyBytes) * threads / (micros * 1e-6));
  }
  return best;
}

Result<BenchResult> DeviceSession::benchCpu(const Program &program, size_t entry,
                                            const std::vector<HostTensor> &inputs,
                                            const BenchOptions &options) {
  BenchResult result;
  Result<unsigned> threads = startThreads();
  if (!threads)
    return threads.error();
  result.threads = int(*threads);
  result.fmaFlops = measureFmaFlops(result.threads);
  result.copyBandwidth = measureCpuCopy(result.threads);
  result.repetitions = std::max(options.repetitions, 20);
  Result<TensorSet> set =
      TensorSet::create(*this, program, entry, inputs, options);
  if (!set)
    return set.error();
  result.bytes = set->trafficBytes();
  // The same tensors each time: what fits a cache stays there, as it does between a program's
  // own calls.
  Error error{ErrorCode::Driver, ""};
  auto launch = [&](int count) {
    return microsOf([&] {
             for (int i = 0; i < count && error.message.empty(); ++i)
               error = set->launch();
           }) /
           count;
  };
  int count = std::max(1, int(leastMicros / std::max(launch(1), 0.1)));
  std::vector<double> times, processor;
  for (int r = 0; r < result.repetitions && error.message.empty(); ++r) {
    double before = processorMicros();
    times.push_back(launch(count));
    processor.push_back((processorMicros() - before) / count);
  }
  if (!error.message.empty())
    return error;
  result.plainMicros = median(times);
  result.leastMicros = *std::min_element(times.begin(), times.end());
  result.processorMicros = median(processor);
  result.bandwidth = double(result.bytes) / (result.plainMicros * 1e-6);
  result.floorMicros = double(result.bytes) / result.copyBandwidth * 1e6;
  result.ratioToFloor = result.floorMicros > 0 ? result.plainMicros / result.floorMicros : 0;
  return result;
}
