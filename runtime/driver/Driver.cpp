//===- Driver.cpp - the CUDA driver, opened at run time -------------------===//

#include "Driver.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <vector>

using namespace ejk;

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  std::string description = name ? name : "unknown driver error " + std::to_string(result);
  if (text)
    description += std::string(" (") + text + ")";
  return description;
}

Error Driver::error(const char *call, CUresult result) const {
  ErrorCode code = result == cudaErrorOutOfMemory ? ErrorCode::OutOfMemory : ErrorCode::Driver;
  return {code, std::string(call) + " failed: " + describe(result)};
}

static Error noDriver(const std::string &tried) {
  return {ErrorCode::NoDriver, "no CUDA driver: " + tried +
                                   ". Install the NVIDIA driver (it provides libcuda.so.1), in a "
                                   "container make the host's driver visible, or set "
                                   "EJK_CUDA_DRIVER to the library's path"};
}

namespace {
struct CloseLibrary {
  void operator()(void *library) const { dlclose(library); }
};
} // namespace

static Error open(Driver &driver) {
  std::vector<const char *> candidates = {"libcuda.so.1", "libcuda.so"};
  if (const char *path = std::getenv("EJK_CUDA_DRIVER"))
    candidates = {path};
  std::unique_ptr<void, CloseLibrary> library;
  std::string tried;
  for (const char *candidate : candidates) {
    library.reset(dlopen(candidate, RTLD_NOW | RTLD_LOCAL));
    if (library)
      break;
    const char *why = dlerror();
    tried += (tried.empty() ? "tried " : ", then ") + std::string(candidate) + " (" +
             (why ? why : "cannot be opened") + ")";
  }
  if (!library)
    return noDriver(tried);

  struct Function {
    const char *symbol;
    void *place;
    bool isRequired;
  };
#define EJK_REQUIRED(field, symbol, parameters) {symbol, &driver.field, true},
#define EJK_OPTIONAL(field, symbol, parameters) {symbol, &driver.field, false},
  const Function functions[] = {EJK_DRIVER_FUNCTIONS(EJK_REQUIRED)
                                    EJK_OPTIONAL_DRIVER_FUNCTIONS(EJK_OPTIONAL)};
#undef EJK_REQUIRED
#undef EJK_OPTIONAL
  std::string missing;
  for (const Function &function : functions) {
    void *address = dlsym(library.get(), function.symbol);
    std::memcpy(function.place, &address, sizeof(address));
    if (!address && function.isRequired)
      missing += (missing.empty() ? "" : ", ") + std::string(function.symbol);
  }
  if (!missing.empty())
    return noDriver("the library that was found lacks " + missing + "; it is too old");
  // Once started it stays open for good: the driver has threads and handlers of
  // its own that do not survive an unload.
  library.release();
  CUresult result = driver.init(0);
  if (result == cudaSuccess)
    return {};
  std::string why = "cuInit failed: " + driver.describe(result);
  if (result == cudaErrorStubLibrary)
    return noDriver("the library that was found is the toolkit's stub");
  if (result == cudaErrorNoDevice)
    return {ErrorCode::NoDevice, "the CUDA driver finds no device: " + why +
                                     ". Check nvidia-smi and CUDA_VISIBLE_DEVICES"};
  return noDriver(why);
}

Result<const Driver *> ejk::loadDriver() {
  static std::mutex mutex;
  static Driver driver;
  static bool loaded = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loaded) {
    Error error = open(driver);
    if (!error.message.empty())
      return error;
    loaded = true;
  }
  return &driver;
}

Result<Device> Device::retain(const Driver &driver, int ordinal) {
  int count = 0;
  if (CUresult r = driver.deviceGetCount(&count))
    return driver.error("cuDeviceGetCount", r);
  if (ordinal < 0 || ordinal >= count)
    return Error{ErrorCode::NoDevice, "there is no CUDA device " + std::to_string(ordinal) +
                                          "; the driver has " + std::to_string(count)};
  Device device;
  device.ordinal = ordinal;
  if (CUresult r = driver.deviceGet(&device.device, ordinal))
    return driver.error("cuDeviceGet", r);
  if (CUresult r = driver.deviceGetAttribute(&device.major, attributeComputeMajor, device.device))
    return driver.error("cuDeviceGetAttribute", r);
  if (CUresult r = driver.deviceGetAttribute(&device.minor, attributeComputeMinor, device.device))
    return driver.error("cuDeviceGetAttribute", r);
  if (CUresult r = driver.deviceGetAttribute(&device.multiprocessors, attributeMultiprocessors,
                                             device.device))
    return driver.error("cuDeviceGetAttribute", r);
  if (CUresult r = driver.primaryCtxRetain(&device.context, device.device))
    return driver.error("cuDevicePrimaryCtxRetain", r);
  return device;
}
