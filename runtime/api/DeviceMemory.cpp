//===- DeviceMemory.cpp - conveniences for examples and tests -------------===//

#include "Handles.h"

#include <map>
#include <mutex>

using namespace ejk;

// Retains a device's primary context once for the life of the process: memory
// allocated in it must outlive any one executable.
static Result<CUcontext> primaryContext(const Driver &driver, int ordinal) {
  static std::mutex mutex;
  static std::map<int, CUcontext> contexts;
  std::lock_guard<std::mutex> lock(mutex);
  // The place first, so that nothing can fail once the context is retained.
  CUcontext &context = contexts[ordinal];
  if (!context) {
    Result<Device> device = Device::retain(driver, ordinal);
    if (!device)
      return device.error();
    context = device->context;
  }
  return context;
}

// Runs one driver call in the device's context.
template <typename Body> static ejk_error *onDevice(int ordinal, const char *call, Body body) {
  return guarded([&]() -> ejk_error * {
    Result<const Driver *> driver = loadDriver();
    if (!driver)
      return makeError(driver.error());
    Result<CUcontext> context = primaryContext(**driver, ordinal);
    if (!context)
      return makeError(context.error());
    ContextScope scope(**driver, *context);
    if (scope.status != cudaSuccess)
      return makeError((*driver)->error("cuCtxPushCurrent", scope.status));
    if (CUresult result = body(**driver))
      return makeError((*driver)->error(call, result));
    return nullptr;
  });
}

static ejk_error *nullPointer(const char *name) {
  return guarded(
      [&] { return makeError(ErrorCode::InvalidArgument, std::string(name) + " is NULL"); });
}

static CUdeviceptr pointer(const void *data) { return reinterpret_cast<CUdeviceptr>(data); }

ejk_error *ejk_device_alloc(int32_t device_ordinal, size_t bytes, void **data) {
  if (!data)
    return nullPointer("data");
  return onDevice(device_ordinal, "cuMemAlloc", [&](const Driver &driver) {
    CUdeviceptr allocated = 0;
    // The driver refuses zero bytes; callers should not have to care.
    CUresult result = driver.memAlloc(&allocated, bytes ? bytes : 1);
    if (result == cudaSuccess)
      *data = reinterpret_cast<void *>(allocated);
    return result;
  });
}

ejk_error *ejk_device_free(int32_t device_ordinal, void *data) {
  if (!data)
    return nullptr;
  return onDevice(device_ordinal, "cuMemFree",
                  [&](const Driver &driver) { return driver.memFree(pointer(data)); });
}

ejk_error *ejk_copy_to_device(int32_t device_ordinal, void *device, const void *host,
                              size_t bytes) {
  if (bytes && (!device || !host))
    return nullPointer(device ? "host" : "device");
  return onDevice(device_ordinal, "cuMemcpyHtoD", [&](const Driver &driver) {
    CUresult status = cudaSuccess;
    if (!bytes)
      return status;
    // From pageable memory the call may return with the last part still on
    // its way, which a kernel on another stream would not wait for.
    status = driver.memcpyHtoD(pointer(device), host, bytes);
    return status == cudaSuccess ? driver.streamSynchronize(nullptr) : status;
  });
}

ejk_error *ejk_copy_to_host(int32_t device_ordinal, void *host, const void *device, size_t bytes) {
  if (bytes && (!device || !host))
    return nullPointer(device ? "host" : "device");
  return onDevice(device_ordinal, "cuMemcpyDtoH", [&](const Driver &driver) {
    return bytes ? driver.memcpyDtoH(host, pointer(device), bytes) : cudaSuccess;
  });
}

ejk_error *ejk_stream_synchronize(int32_t device_ordinal, void *stream) {
  return onDevice(device_ordinal, "cuStreamSynchronize", [&](const Driver &driver) {
    return driver.streamSynchronize(static_cast<CUstream>(stream));
  });
}
