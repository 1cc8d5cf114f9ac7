//===- Threads.cpp - threads that may not start ---------------------------===//
//
// This file alone is compiled with exceptions.
//
//===----------------------------------------------------------------------===//
#include "dialect/reference/Threads.h"

#include <system_error>

std::optional<std::thread> ejk::reference::startThread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error &) {
    return std::nullopt;
  }
}
