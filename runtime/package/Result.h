//===- Result.h - a value or an error ---------------------------*- C++ -*-===//
//
// What the runtime's libraries return instead of throwing.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_PACKAGE_RESULT_H
#define EJK_RUNTIME_PACKAGE_RESULT_H

#include <string>
#include <utility>
#include <variant>

namespace ejk {

/// The values are those of ejk_error_code in ejk/runtime.h.
enum class ErrorCode : int {
  InvalidArgument = 1,
  InvalidTensor = 2,
  InvalidPackage = 3,
  NoDriver = 4,
  NoDevice = 5,
  ArchMismatch = 6,
  Driver = 7,
  OutOfMemory = 8,
  Io = 9,
};

struct Error {
  ErrorCode code;
  std::string message;
};

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::move(value)) {}
  Result(Error error) : state(std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_RESULT_H
