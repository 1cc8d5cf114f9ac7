//===- Isolation.h - cases in a process of their own ---------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKFUZZMLIR_ISOLATION_H
#define EJK_TOOLS_EJKFUZZMLIR_ISOLATION_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ejk::fuzz {

/// What a process that runs cases and the one that watches it share.
struct Shared {
  std::atomic<uint64_t> nextCase;
  std::atomic<uint64_t> mutants, refused, accepted, comparisons, endless, findings, crashes;
  char seed[1 << 10];     ///< the file that the mutant of the case under way is made of
  char pipeline[1 << 10]; ///< of the case under way
  char pass[1 << 8];      ///< that runs
  char module[1 << 20];   ///< what it runs on, cut off
  static void set(char *place, size_t size, llvm::StringRef text);
};

/// Memory that processes started from here on share.
Shared &makeShared();

/// Of a process that took all its time.
constexpr llvm::StringLiteral kDoesNotEnd = "does not end";

/// How a process ended: the empty string where all was well, else what it died of, with the line
/// that it wrote on the way, where it did.
///
/// `body` runs in a new process, whose standard error is kept. It may take `bytes` of memory.
std::string runApart(llvm::function_ref<void()> body, uint64_t bytes);

/// Runs `body` with each number below `jobs` in a process of its own, all at once. Gives back how
/// many of the processes did not end with status 0.
unsigned runJobs(unsigned jobs, llvm::function_ref<void(unsigned)> body);

/// Processor time.
using Duration = std::chrono::microseconds;

/// Ends this process after `limit`, which is above 0, from now on. Gives back what was left of the
/// limit before.
Duration setTimeLimit(Duration limit);

} // namespace ejk::fuzz

#endif // EJK_TOOLS_EJKFUZZMLIR_ISOLATION_H
