//===- Bench.cpp - timing against the device's copy bandwidth -------------===//

#include "TensorSet.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

using namespace ejk;

// A graph of launches lasts about this long, so that starting it is no part of
// what one launch takes.
static constexpr double graphTargetMicros = 4000;
static constexpr int maxGraphLaunches = 4000;
// Tiny tensors never fill a cache; this bounds the copies that are made of
// them.
static constexpr int maxCopies = 1024;
// Work on tensor cores and memory at once can draw more than the device's limit of power,
// which then lowers its clocks, some tens of milliseconds later. With this much rest for
// each launch's time the average stays below.
static constexpr double rests = 3;
// How long launches follow one another without rest, before those that are timed and while.
static constexpr double sustainFor = 200e3;
static constexpr int mostSustained = 100;

static const Error success{ErrorCode::Driver, ""};

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

namespace {
/// Device time between two points of a stream.
class Stopwatch {
public:
  Stopwatch(const Driver &driver, CUstream stream) : driver(driver), stream(stream) {
    status = driver.eventCreate(&start, 0);
    if (status == cudaSuccess)
      status = driver.eventCreate(&end, 0);
  }
  ~Stopwatch() {
    if (start)
      driver.eventDestroy(start);
    if (end)
      driver.eventDestroy(end);
  }

  /// Microseconds that what `enqueue` enqueues takes.
  Result<double> time(const std::function<Error()> &enqueue) {
    CUresult r = status;
    if (r == cudaSuccess)
      r = driver.eventRecord(start, stream);
    if (r != cudaSuccess)
      return driver.error("cuEventRecord", r);
    Error error = enqueue();
    if (!error.message.empty())
      return error;
    float milliseconds = 0;
    r = driver.eventRecord(end, stream);
    if (r == cudaSuccess)
      r = driver.eventSynchronize(end);
    if (r == cudaSuccess)
      r = driver.eventElapsedTime(&milliseconds, start, end);
    if (r != cudaSuccess)
      return driver.error("cuEventSynchronize", r);
    return milliseconds * 1e3;
  }

  /// The median over `repetitions`, after one that does not count. The device rests in
  /// between for `rest` times as long as each took.
  Result<double> medianTime(int repetitions, double rest, const std::function<Error()> &enqueue) {
    std::vector<double> times;
    for (int i = -1; i < repetitions; ++i) {
      Result<double> micros = time(enqueue);
      if (!micros)
        return micros;
      if (i >= 0)
        times.push_back(*micros);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(rest * *micros));
    }
    return median(std::move(times));
  }

private:
  const Driver &driver;
  CUstream stream;
  CUevent start = nullptr, end = nullptr;
  CUresult status;
};

/// Launches recorded once and replayed.
class RecordedGraph {
public:
  RecordedGraph(const Driver &driver, CUstream stream) : driver(driver), stream(stream) {}
  ~RecordedGraph() {
    if (executable)
      driver.graphExecDestroy(executable);
    if (graph)
      driver.graphDestroy(graph);
  }

  Error record(const std::function<Error()> &enqueue) {
    if (CUresult r = driver.streamBeginCapture(stream, captureThreadLocal))
      return driver.error("cuStreamBeginCapture", r);
    Error error = enqueue();
    // Capture must end even when a launch failed, or the stream is lost.
    CUresult r = driver.streamEndCapture(stream, &graph);
    if (!error.message.empty())
      return error;
    if (r != cudaSuccess)
      return driver.error("cuStreamEndCapture", r);
    if (CUresult r = driver.graphInstantiate(&executable, graph, 0))
      return driver.error("cuGraphInstantiate", r);
    return success;
  }

  Error replay() {
    CUresult r = driver.graphLaunch(executable, stream);
    return r == cudaSuccess ? success : driver.error("cuGraphLaunch", r);
  }

private:
  const Driver &driver;
  CUstream stream;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
};

/// Two large buffers to copy between.
struct CopyBuffers {
  explicit CopyBuffers(const Driver &driver) : driver(driver) {}
  ~CopyBuffers() { release(); }
  void release() {
    for (CUdeviceptr *buffer : {&source, &target}) {
      if (*buffer)
        driver.memFree(*buffer);
      *buffer = 0;
    }
  }
  CUresult allocate(size_t bytes) {
    CUresult r = driver.memAlloc(&source, bytes);
    if (r == cudaSuccess)
      r = driver.memAlloc(&target, bytes);
    if (r != cudaSuccess)
      release();
    return r;
  }

  const Driver &driver;
  CUdeviceptr source = 0, target = 0;
};
} // namespace

Result<double> DeviceSession::measureCopyBandwidth() {
  ContextScope scope(*driver, device.context);
  if (scope.status != cudaSuccess)
    return driver->error("cuCtxPushCurrent", scope.status);
  CopyBuffers buffers(*driver);
  // Less where memory is short: even 128 MiB is no cache's size.
  size_t bytes = size_t(2) << 30;
  CUresult r = buffers.allocate(bytes);
  while (r == cudaErrorOutOfMemory && bytes > size_t(128) << 20) {
    bytes /= 2;
    r = buffers.allocate(bytes);
  }
  if (r != cudaSuccess)
    return driver->error("cuMemAlloc", r);
  Stopwatch stopwatch(*driver, stream);
  Result<double> micros = stopwatch.medianTime(20, 0, [&]() -> Error {
    CUresult r = driver->memcpyDtoDAsync(buffers.target, buffers.source, bytes, stream);
    return r == cudaSuccess ? success : driver->error("cuMemcpyDtoDAsync", r);
  });
  if (!micros)
    return micros;
  return 2.0 * double(bytes) / (*micros * 1e-6);
}

// Makes copies until they exceed three times the L2 cache or memory is full.
static Error makeCopies(std::vector<std::unique_ptr<TensorSet>> &sets, int64_t l2Bytes) {
  int64_t total = sets[0]->allocatedBytes();
  while (total <= 3 * l2Bytes && int(sets.size()) < maxCopies) {
    Result<TensorSet> copy = TensorSet::copyOf(*sets[0]);
    if (!copy && copy.error().code == ErrorCode::OutOfMemory)
      return success;
    if (!copy)
      return copy.error();
    sets.push_back(std::make_unique<TensorSet>(std::move(*copy)));
    total += sets.back()->allocatedBytes();
  }
  return success;
}

// Host time of one launch: short batches, so that the queue never fills and
// makes the host wait for the device.
static Result<double> hostMicros(const Driver &driver, CUstream stream, int repetitions, int batch,
                                 const std::function<Error(int)> &launch) {
  std::vector<double> times;
  for (int r = -1; r < repetitions; ++r) {
    if (CUresult result = driver.streamSynchronize(stream))
      return driver.error("cuStreamSynchronize", result);
    auto begin = std::chrono::steady_clock::now();
    Error error = launch(batch);
    auto end = std::chrono::steady_clock::now();
    if (!error.message.empty())
      return error;
    if (r >= 0)
      times.push_back(std::chrono::duration<double, std::micro>(end - begin).count() / batch);
  }
  if (CUresult result = driver.streamSynchronize(stream))
    return driver.error("cuStreamSynchronize", result);
  return median(std::move(times));
}

Result<BenchResult> DeviceSession::bench(const Program &program, const std::string &entry,
                                         const std::vector<HostTensor> &inputs,
                                         const BenchOptions &options) {
  Result<size_t> index = program.findEntry(entry);
  if (!index)
    return index.error();
  if (isCpu())
    return benchCpu(program, *index, inputs, options);
  ContextScope scope(*driver, device.context);
  if (scope.status != cudaSuccess)
    return driver->error("cuCtxPushCurrent", scope.status);

  BenchResult result;
  result.repetitions = std::max(options.repetitions, 20);
  result.l2Bytes = l2;
  // Measured first, while no copies take up the memory that it needs.
  Result<double> copyBandwidth = measureCopyBandwidth();
  if (!copyBandwidth)
    return copyBandwidth.error();
  result.copyBandwidth = *copyBandwidth;

  Result<TensorSet> first =
      TensorSet::create(*this, program, *index, inputs, options);
  if (!first)
    return first.error();
  std::vector<std::unique_ptr<TensorSet>> sets;
  sets.push_back(std::make_unique<TensorSet>(std::move(*first)));
  Error error = makeCopies(sets, l2);
  if (!error.message.empty())
    return error;
  result.copies = int(sets.size());
  result.rotationBytes = result.copies * sets[0]->allocatedBytes();
  result.bytes = sets[0]->trafficBytes();

  size_t next = 0;
  auto launch = [&](int count) -> Error {
    for (int i = 0; i < count; ++i) {
      Error error = sets[next]->launch();
      if (!error.message.empty())
        return error;
      next = (next + 1) % sets.size();
    }
    return success;
  };
  Stopwatch stopwatch(*driver, stream);
  Result<double> estimate = stopwatch.medianTime(3, rests, [&] { return launch(result.copies); });
  if (!estimate)
    return estimate.error();
  // Whole rotations, so that every replay finds the caches as the last did.
  double wanted = graphTargetMicros / std::max(*estimate, 1.0);
  int rotations = std::clamp(int(wanted) + 1, 1, std::max(1, maxGraphLaunches / result.copies));
  int count = rotations * result.copies;

  Result<double> plain =
      stopwatch.medianTime(result.repetitions, rests, [&] { return launch(count); });
  if (!plain)
    return plain.error();
  RecordedGraph graph(*driver, stream);
  error = graph.record([&] { return launch(count); });
  if (!error.message.empty())
    return error;
  Result<double> replayed =
      stopwatch.medianTime(result.repetitions, rests, [&] { return graph.replay(); });
  if (!replayed)
    return replayed.error();
  Result<double> host =
      hostMicros(*driver, stream, result.repetitions, std::min(count, 100), launch);
  if (!host)
    return host.error();

  int replays = std::min(int(sustainFor / std::max(*replayed, 1.0)) + 1, mostSustained);
  Result<double> sustained = stopwatch.medianTime(1, 0, [&]() -> Error {
    for (int i = 0; i < replays; ++i)
      if (Error error = graph.replay(); !error.message.empty())
        return error;
    return success;
  });
  if (!sustained)
    return sustained.error();

  result.plainMicros = *plain / count;
  result.sustainedMicros = *sustained / replays / count;
  result.graphMicros = *replayed / count;
  result.hostMicros = *host;
  result.bandwidth = double(result.bytes) / (result.graphMicros * 1e-6);
  result.floorMicros = double(result.bytes) / result.copyBandwidth * 1e6;
  result.ratioToFloor = result.floorMicros > 0 ? result.graphMicros / result.floorMicros : 0;
  return result;
}

std::string BenchResult::describe() const {
  char text[1024];
  if (threads) {
    std::snprintf(text, sizeof(text),
                  "time       %.2f us, at best %.2f us, on %d thread%s\n"
                  "processor  %.2f us\n"
                  "bytes      %.3f MB, inputs and outputs once each\n"
                  "bandwidth  %.1f GB/s, %.1f %% of a copy's by as many threads (%.1f GB/s)\n"
                  "floor      %.2f us to move the bytes; the time is %.2f x the floor\n"
                  "cores      %.1f GFLOP/s in f32 multiply-adds, by as many threads\n"
                  "method     median of %d on the same tensors\n",
                  plainMicros, leastMicros, threads, threads == 1 ? "" : "s", processorMicros,
                  double(bytes) * 1e-6, bandwidth * 1e-9, 100 * bandwidth / copyBandwidth,
                  copyBandwidth * 1e-9, floorMicros, ratioToFloor, fmaFlops * 1e-9, repetitions);
    return text;
  }
  std::snprintf(text, sizeof(text),
                "time       %.2f us in a CUDA graph, %.2f us launched one by one, %.2f us without "
                "rest\n"
                "host       %.2f us per launch\n"
                "bytes      %.3f MB, inputs and outputs once each\n"
                "bandwidth  %.1f GB/s, %.1f %% of this device's copy (%.1f GB/s)\n"
                "floor      %.2f us; the time is %.2f x the floor\n"
                "method     median of %d with rests, rotating over %d copies, %.1f MB, L2 %.1f "
                "MB%s\n",
                graphMicros, plainMicros, sustainedMicros, hostMicros, double(bytes) * 1e-6,
                bandwidth * 1e-9, copyBandwidth > 0 ? 100 * bandwidth / copyBandwidth : 0,
                copyBandwidth * 1e-9, floorMicros, ratioToFloor, repetitions, copies,
                double(rotationBytes) * 1e-6, double(l2Bytes) * 1e-6,
                rotationBytes > 3 * l2Bytes ? "" : " (not cold: less than 3 x L2)");
  return text;
}
