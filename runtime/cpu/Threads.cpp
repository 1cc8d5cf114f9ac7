//===- Threads.cpp - ranges of a kernel's items on several threads --------===//
//
// A pool that the process keeps. A job is a counter of pieces that threads take from, so that
// sequences of different lengths balance. A thread without work polls for a short while, since
// the kernels of one call follow one another, and then sleeps.
//
//===----------------------------------------------------------------------===//

#include "Threads.h"

#include "ThreadCount.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>

using namespace ejk;

// About as long as it takes to wake a thread.
static constexpr int polls = 2000;
// Pieces for each thread of a job, where there is work for as many.
static constexpr int64_t piecesPerThread = 4;

static void rest() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

namespace {
class Pool {
public:
  explicit Pool(unsigned wanted) {
    for (unsigned i = 1; i < wanted; ++i)
      try {
        std::thread(&Pool::work, this, i).detach();
        ++workers;
      } catch (const std::system_error &) {
        break; // with those that there are
      }
  }

  unsigned size() const { return workers + 1; }

  void run(int64_t total, int64_t pieceSize, unsigned most, RangeBody rangeBody, void *rangeData) {
    if (workers == 0 || most == 1 || total <= pieceSize || !busy.try_lock()) {
      rangeBody(rangeData, 0, total);
      return;
    }
    body = rangeBody;
    data = rangeData;
    count = total;
    piece = pieceSize;
    threads = most;
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

  void work(unsigned number) {
    uint64_t done = 0;
    for (;;) {
      for (int i = 0; i < polls && job.load(std::memory_order_acquire) == done; ++i)
        rest();
      if (job.load(std::memory_order_acquire) == done) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return job.load(std::memory_order_acquire) != done; });
      }
      ++done;
      if (number < threads)
        takePieces();
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  unsigned workers = 0;
  std::mutex busy; // held while a job runs

  RangeBody body = nullptr;
  void *data = nullptr;
  int64_t count = 0, piece = 0;
  unsigned threads = 0; // that share this job, the caller's among them
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

Result<unsigned> ejk::startThreads() {
  static std::mutex starting;
  std::lock_guard<std::mutex> lock(starting);
  static bool watchesForks = false;
  if (!watchesForks)
    watchesForks = ::pthread_atfork(nullptr, nullptr, forgetPool) == 0;
  Pool *pool = thePool.load(std::memory_order_acquire);
  if (!pool) {
    Result<unsigned> wanted = wantedThreads();
    if (!wanted)
      return wanted.error();
    pool = new Pool(*wanted);
    thePool.store(pool, std::memory_order_release);
  }
  return pool->size();
}

void ejk::runOnThreads(int64_t count, int64_t grain, RangeBody body, void *data, unsigned most) {
  Pool *pool = thePool.load(std::memory_order_acquire);
  if (!pool)
    return body(data, 0, count); // in a fork that made no executable
  int64_t threads = most ? std::min(most, pool->size()) : pool->size();
  int64_t units = (count + grain - 1) / grain;
  // Where there are fewer units than threads, a unit is divided, though its parts share work.
  int64_t piece = units >= threads
                      ? std::max<int64_t>(1, units / (threads * piecesPerThread)) * grain
                      : (count + threads - 1) / threads;
  pool->run(count, std::max<int64_t>(piece, 1), unsigned(threads), body, data);
}
