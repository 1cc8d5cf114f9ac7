//===- Threads.h - ranges of a kernel's items on several threads -*- C++ -*-===//

#ifndef EJK_RUNTIME_CPU_THREADS_H
#define EJK_RUNTIME_CPU_THREADS_H

#include "package/Result.h"

#include <cstdint>

namespace ejk {

/// A range of items [first, end) of something that is to be done once for all of them.
using RangeBody = void (*)(void *data, int64_t first, int64_t end);

/// How many threads the process's pool has, with the caller of a launch: as wantedThreads() says
/// the first time, which starts them.
Result<unsigned> startThreads();

/// Runs `body` on ranges that together are [0, count), each a multiple of `grain` long but the
/// last, on the pool's threads and the caller's: on `most` of them, if that is not 0. Where another
/// thread uses the pool, the caller does all of it. Allocates nothing once startThreads() has been
/// called.
void runOnThreads(int64_t count, int64_t grain, RangeBody body, void *data, unsigned most = 0);

} // namespace ejk

#endif // EJK_RUNTIME_CPU_THREADS_H
