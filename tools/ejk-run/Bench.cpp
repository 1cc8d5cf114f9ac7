//===- Bench.cpp - what a run's calls take --------------------------------===//
#include "Bench.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace ejk;

std::string ejk::benchCalls(DeviceSession &session, const Program &program, const TimedCalls &calls,
                            const std::vector<HostTensor> &inputs, size_t numGiven,
                            const RunOptions &options) {
  BenchOptions benchOptions{options};
  auto time = [&](const std::string &entry) {
    return session.bench(program, entry, inputs, benchOptions);
  };
  Result<BenchResult> result = time(calls.name);
  if (!result)
    return result.error().message;
  llvm::outs() << result->describe();
  if (calls.forward.empty())
    return "";
  Result<BenchResult> without = time(calls.primal), with = time(calls.forward);
  if (!without || !with)
    return (without ? with : without).error().message;
  int64_t saved = 0;
  for (const HostTensor &input : llvm::ArrayRef(inputs).drop_front(numGiven))
    saved += input.data.size();
  double more = with->graphMicros - without->graphMicros, all = result->graphMicros + more;
  double floor = double(result->bytes - saved) / result->copyBandwidth * 1e6;
  llvm::outs() << llvm::format("saving: %s %.2f us, %s %.2f us, %.2f us more\n",
                               calls.primal.c_str(), without->graphMicros, calls.forward.c_str(),
                               with->graphMicros, more)
               << llvm::format("both:   %.2f us, floor without what is saved %.2f us; %.2f x the "
                               "floor\n",
                               all, floor, all / floor);
  return "";
}
