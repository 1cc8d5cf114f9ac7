//===- Memory.cpp - a session's memory, a GPU's or the host's -------------===//

#include "Harness.h"

#include <cstdlib>
#include <cstring>

using namespace ejk;

static const Error success{ErrorCode::Driver, ""};

// A page, so that copies of one set of tensors lie alike.
static constexpr size_t hostAlignment = 4096;

static void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

Result<uint64_t> DeviceSession::allocate(size_t bytes) const {
  if (isCpu()) {
    void *memory = nullptr;
    if (posix_memalign(&memory, hostAlignment, std::max<size_t>(bytes, 1)) != 0)
      return Error{ErrorCode::OutOfMemory, "no host memory of " + std::to_string(bytes) + " bytes"};
    return reinterpret_cast<uint64_t>(memory);
  }
  CUdeviceptr address = 0;
  if (CUresult r = driver->memAlloc(&address, bytes)) {
    Error error = driver->error("cuMemAlloc", r);
    error.message += " (" + std::to_string(bytes) + " bytes)";
    return error;
  }
  return uint64_t(address);
}

void DeviceSession::release(uint64_t address) const {
  if (isCpu())
    std::free(pointer(address));
  else
    driver->memFree(address);
}

Error DeviceSession::fill(uint64_t address, unsigned char byte, size_t bytes) const {
  if (isCpu()) {
    std::memset(pointer(address), byte, bytes);
    return success;
  }
  CUresult r = driver->memsetD8Async(address, byte, bytes, stream);
  return r == cudaSuccess ? success : driver->error("cuMemsetD8Async", r);
}

Error DeviceSession::upload(uint64_t address, const void *host, size_t bytes) const {
  if (isCpu()) {
    std::memcpy(pointer(address), host, bytes);
    return success;
  }
  if (CUresult r = driver->memcpyHtoD(address, host, bytes))
    return driver->error("cuMemcpyHtoD", r);
  // From pageable memory the last part may still be on its way, and the
  // session's stream does not wait for the default one.
  CUresult r = driver->streamSynchronize(nullptr);
  return r == cudaSuccess ? success : driver->error("cuStreamSynchronize", r);
}

Error DeviceSession::download(void *host, uint64_t address, size_t bytes) const {
  if (isCpu()) {
    std::memcpy(host, pointer(address), bytes);
    return success;
  }
  CUresult r = driver->memcpyDtoH(host, address, bytes);
  return r == cudaSuccess ? success : driver->error("cuMemcpyDtoH", r);
}

Error DeviceSession::copyWithin(uint64_t to, uint64_t from, size_t bytes) const {
  if (isCpu()) {
    std::memcpy(pointer(to), pointer(from), bytes);
    return success;
  }
  CUresult r = driver->memcpyDtoDAsync(to, from, bytes, stream);
  return r == cudaSuccess ? success : driver->error("cuMemcpyDtoDAsync", r);
}

Error DeviceSession::synchronize() const {
  if (isCpu())
    return success;
  CUresult r = driver->streamSynchronize(stream);
  return r == cudaSuccess ? success : driver->error("running the kernels: cuStreamSynchronize", r);
}
