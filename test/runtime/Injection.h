//===- Injection.h - making allocations and file calls fail -----*- C++ -*-===//
//
// Injection.cpp takes the place of malloc, operator new and the calls on files in
// the program that it is linked into, the shared libraries among it.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TEST_RUNTIME_INJECTION_H
#define EJK_TEST_RUNTIME_INJECTION_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EJK_SANITIZER_OWNS_MALLOC 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EJK_SANITIZER_OWNS_MALLOC 1
#endif

namespace ejk::test {

enum class Failing {
  nothing,
  oneAllocation,   ///< the n-th
  allAllocations,  ///< from the n-th on
  oneFileCall,     ///< the n-th, with EIO
  interruptedCall, ///< the n-th read or write is interrupted, which is no failure
  shortTransfers,  ///< from the n-th on, each read or write is of one byte
};

/// From now on the n-th call of that kind that this thread makes fails.
void startFailing(Failing what, long n);

/// Nothing fails any more. The number of calls of that kind since the start.
long stopFailing();

/// Whether memory that was written may not be made executable, as on some systems.
void forbidExecution(bool forbidden);

/// Blocks of memory and descriptors of files that are in use. Memory is counted
/// through operator new alone where a sanitizer owns malloc.
long liveBlocks();
long openFiles();

} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_INJECTION_H
