//===- Bench.h - what a run's calls take ------------------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKRUN_BENCH_H
#define EJK_TOOLS_EJKRUN_BENCH_H

#include "harness/Harness.h"

namespace ejk {

/// A function, and as a derivative the function that it is of and the forward that saves states for
/// it, which is "" where there is none.
struct TimedCalls {
  std::string name, primal, forward;
};

/// Times `calls.name` and shows that. Where a forward saves, inputs behind the first `numGiven` are
/// what it saved: the time that it takes more than the function itself is the derivative's, too.
/// Gives back an error's message, or "".
std::string benchCalls(DeviceSession &session, const Program &program, const TimedCalls &calls,
                       const std::vector<HostTensor> &inputs, size_t numGiven,
                       const RunOptions &options);

} // namespace ejk

#endif // EJK_TOOLS_EJKRUN_BENCH_H
