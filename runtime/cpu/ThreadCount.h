//===- ThreadCount.h - how many threads a process may use -------*- C++ -*-===//

#ifndef EJK_RUNTIME_CPU_THREADCOUNT_H
#define EJK_RUNTIME_CPU_THREADCOUNT_H

#include "package/Result.h"

#include <optional>
#include <string>

namespace ejk {

/// How many threads compute, with the caller of a launch: EJK_NUM_THREADS, else OMP_NUM_THREADS,
/// else as many as the process may run on and its control groups' quotas let run. An error where a
/// variable is no number.
Result<unsigned> wantedThreads();

/// How many processors' time the quotas of this process's control groups allow, rounded up; none
/// where there is no quota. `root` is where /proc and /sys lie.
std::optional<unsigned> processorQuota(const std::string &root = "");

} // namespace ejk

#endif // EJK_RUNTIME_CPU_THREADCOUNT_H
