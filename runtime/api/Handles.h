//===- Handles.h - what is behind the C API's handles -----------*- C++ -*-===//

#ifndef EJK_RUNTIME_API_HANDLES_H
#define EJK_RUNTIME_API_HANDLES_H

#include "ejk/runtime.h"

#include "../cpu/Image.h"
#include "../driver/Driver.h"
#include "../package/Package.h"

#include "ejk/package_format.h"

#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

struct ejk_error {
  ejk::ErrorCode code;
  std::string message;
};

struct ejk_package {
  std::shared_ptr<const ejk::Package> package;
};

struct ejk_executable {
  ejk_executable() = default;
  ejk_executable(const ejk_executable &) = delete;
  ejk_executable &operator=(const ejk_executable &) = delete;
  /// Unloads the modules and releases the device, if they are there.
  ~ejk_executable();

  /// Shared, so that the caller may destroy the package first.
  std::shared_ptr<const ejk::Package> package;
  const ejk::Driver *driver = nullptr;
  ejk::Device device; ///< retained where its context is not null
  ejk::CUmodule module = nullptr;
  /// What writes zeros after the last offset, where an entry takes offsets.
  ejk::CUmodule rowsModule = nullptr;
  ejk::CUfunction zeroRows = nullptr;
  /// A CPU's code; then there is no driver.
  std::unique_ptr<ejk::CpuImage> image;
  bool usesBinary = false;
  int architecture = 0; ///< of the manifest's: that of the module
  int64_t facts[EJK_NUM_DEVICE_FACTS] = {};
  /// functions[entry][variant][launch]; none for a variant that is not usable.
  std::vector<std::vector<std::vector<ejk::CUfunction>>> functions;
  /// The same of a CPU's executable.
  std::vector<std::vector<std::vector<ejk_cpu_kernel>>> cpuFunctions;
  /// usable[entry][variant]: it is for the module's architecture, and the device has the shared
  /// memory that it needs.
  std::vector<std::vector<char>> usable;

  bool isUsable(const ejk::Entry &entry, size_t variant) const {
    return usable[size_t(&entry - package->manifest.entries.data())][variant] != 0;
  }
};

namespace ejk {

/// Errors are made out of line: a launch that succeeds never comes near.
[[gnu::cold, gnu::noinline]] ejk_error *makeError(ErrorCode code, std::string message);
inline ejk_error *makeError(const Error &error) { return makeError(error.code, error.message); }

/// The error for having no memory to make an error from.
ejk_error *outOfMemoryError();

/// The error for an exception that nothing here throws.
ejk_error *unexpectedError();

/// Runs a C function's body; no exception crosses the C boundary. The one that
/// can occur is the allocator's, also for a size that no allocation can have.
template <typename Body> ejk_error *guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return outOfMemoryError();
  } catch (const std::length_error &) {
    return outOfMemoryError();
  } catch (...) {
    return unexpectedError();
  }
}

/// The entry, or null with `error` set when the index is wrong.
const Entry *findEntry(const Manifest &manifest, size_t index, ejk_error *&error);

/// The entry, or null with `error` set when the handle or the index is wrong.
const Entry *findEntry(const ejk_package *package, size_t index, ejk_error *&error);

/// Whether a caller's struct has a field that its first version lacked.
#define EJK_HAS_FIELD(object, field)                                                               \
  ((object).struct_size >= size_t(reinterpret_cast<const char *>(&(object).field + 1) -            \
                                  reinterpret_cast<const char *>(&(object))))

/// The error for a caller's struct that is smaller than any version of it.
ejk_error *checkStructSize(const char *name, size_t given, size_t needed);

} // namespace ejk

#endif // EJK_RUNTIME_API_HANDLES_H
