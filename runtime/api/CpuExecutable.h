//===- CpuExecutable.h - a package's code on this CPU -----------*- C++ -*-===//

#ifndef EJK_RUNTIME_API_CPUEXECUTABLE_H
#define EJK_RUNTIME_API_CPUEXECUTABLE_H

#include "CallPlan.h"

namespace ejk {

/// Whether the package has code for CPUs, whichever they are; or for GPUs.
bool hasCpuCode(const Manifest &manifest);
bool hasGpuCode(const Manifest &manifest);

/// Maps the image of the best instruction set that this process runs, and finds its kernels.
Result<std::unique_ptr<ejk_executable>>
createCpuExecutable(const std::shared_ptr<const Package> &package);

/// What divides a launch's work: the caller's function, or else `most` threads of the library's,
/// all if that is 0.
struct CpuThreads {
  ejk_parallel_for parallelFor = nullptr;
  void *context = nullptr;
  unsigned most = 0;
};

/// Runs the planned call's kernels one after the other, each on these threads, and returns when
/// they are done.
void runOnCpu(const ejk_executable &executable, size_t entry, const CallPlan &plan,
              const CpuThreads &threads);

} // namespace ejk

#endif // EJK_RUNTIME_API_CPUEXECUTABLE_H
