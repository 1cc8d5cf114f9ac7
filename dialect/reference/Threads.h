//===- Threads.h - threads that may not start -----------------------*- C++ -*-===//
//
// A system may refuse another thread, for want of memory or by a limit of processes. std::thread
// then throws, which ends a program without exceptions.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_THREADS_H
#define EJK_DIALECT_REFERENCE_THREADS_H

#include <functional>
#include <optional>
#include <thread>

namespace ejk::reference {

/// A thread that runs `body`, or none where the system starts no more.
std::optional<std::thread> startThread(std::function<void()> body);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_THREADS_H
