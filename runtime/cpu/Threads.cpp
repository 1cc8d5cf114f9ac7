//===- Threads.cpp - ranges of a kernel's items on several threads --------===//
//
// A pool that the process keeps. A job is a counter of pieces that threads take from, so that
// sequences of different lengths balance. A thread without work polls for a short while, since
// the kernels of one call follow one another, and then sleeps.
//
//===----------------------------------------------------------------------===//

#include "Threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <sched.h>

using namespace ejk;

// About as long as it takes to wake a thread.
static constexpr int polls = 2000;
// Pieces for each thread of a job, where there is work for as many.
static constexpr int64_t piecesPerThread = 4;
static constexpr unsigned mostThreads = 1024;

static void rest() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static unsigned wantedThreads() {
  if (const char *text = std::getenv("EJK_NUM_THREADS")) {
    char *end = nullptr;
    unsigned long number = std::strtoul(text, &end, 10);
    if (end != text && !*end && number >= 1)
      return unsigned(std::min<unsigned long>(number, mostThreads));
  }
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1u, unsigned(CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

namespace {
class Pool {
public:
  Pool() {
    unsigned wanted = wantedThreads();
    for (unsigned i = 1; i < wanted; ++i)
      try {
        std::thread(&Pool::work, this).detach();
        ++workers;
      } catch (const std::system_error &) {
        break; // with those that there are
      }
  }

  unsigned size() const { return workers + 1; }

  void run(int64_t total, int64_t pieceSize, RangeBody rangeBody, void *rangeData) {
    if (workers == 0 || total <= pieceSize || !busy.try_lock()) {
      rangeBody(rangeData, 0, total);
      return;
    }
    body = rangeBody;
    data = rangeData;
    count = total;
    piece = pieceSize;
    next.store(0, std::memory_order_relaxed);
    running.store(workers, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(mutex);
      job.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    takePieces();
    // All have seen the job before the next one may replace it.
    for (int i = 0; running.load(std::memory_order_acquire) != 0; ++i)
      if (i < polls)
        rest();
      else
        std::this_thread::yield();
    busy.unlock();
  }

private:
  void takePieces() {
    for (;;) {
      int64_t first = next.fetch_add(piece, std::memory_order_relaxed);
      if (first >= count)
        return;
      body(data, first, std::min(first + piece, count));
    }
  }

  void work() {
    uint64_t done = 0;
    for (;;) {
      for (int i = 0; i < polls && job.load(std::memory_order_acquire) == done; ++i)
        rest();
      if (job.load(std::memory_order_acquire) == done) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return job.load(std::memory_order_acquire) != done; });
      }
      ++done;
      takePieces();
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  unsigned workers = 0;
  std::mutex busy; // held while a job runs

  RangeBody body = nullptr;
  void *data = nullptr;
  int64_t count = 0, piece = 0;
  std::atomic<int64_t> next{0};
  std::atomic<unsigned> running{0};
  std::atomic<uint64_t> job{0};
  std::mutex mutex;
  std::condition_variable wake;
};
} // namespace

// Never destroyed: its threads may outlive main. A fork has none of them, and so no pool.
static std::atomic<Pool *> thePool{nullptr};
static void forgetPool() { thePool.store(nullptr, std::memory_order_release); }

unsigned ejk::startThreads() {
  static std::mutex starting;
  std::lock_guard<std::mutex> lock(starting);
  static bool watchesForks = false;
  if (!watchesForks)
    watchesForks = ::pthread_atfork(nullptr, nullptr, forgetPool) == 0;
  Pool *pool = thePool.load(std::memory_order_acquire);
  if (!pool) {
    pool = new Pool;
    thePool.store(pool, std::memory_order_release);
  }
  return pool->size();
}

void ejk::runOnThreads(int64_t count, int64_t grain, RangeBody body, void *data) {
  Pool *pool = thePool.load(std::memory_order_acquire);
  if (!pool)
    return body(data, 0, count); // in a fork that made no executable
  int64_t threads = pool->size(), units = (count + grain - 1) / grain;
  // Where there are fewer units than threads, a unit is divided, though its parts share work.
  int64_t piece = units >= threads
                      ? std::max<int64_t>(1, units / (threads * piecesPerThread)) * grain
                      : (count + threads - 1) / threads;
  pool->run(count, std::max<int64_t>(piece, 1), body, data);
}
