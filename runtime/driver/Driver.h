//===- Driver.h - the CUDA driver, opened at run time -----------*- C++ -*-===//
//
// The few driver functions that ejk calls, declared here and looked up in
// libcuda.so.1 when one is first needed. Nothing includes cuda.h or links CUDA,
// so everything builds and loads on a machine that has neither.
//
// The environment variable EJK_CUDA_DRIVER names another library to open
// instead; the tests put a fake one there.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_DRIVER_DRIVER_H
#define EJK_RUNTIME_DRIVER_DRIVER_H

#include "../package/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ejk {

// The driver's own types, as its ABI has them.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;
struct alignas(64) CUtensorMap {
  uint64_t opaque[16];
};

// The driver's constants that ejk uses, with cuda.h's values.
enum : CUresult {
  cudaSuccess = 0,
  cudaErrorOutOfMemory = 2,
  cudaErrorStubLibrary = 34,
  cudaErrorNoDevice = 100,
};
enum DeviceAttribute : int {
  attributeMultiprocessors = 16,
  attributeL2CacheSize = 38,
  attributeComputeMajor = 75,
  attributeComputeMinor = 76,
  attributeMaxSharedOptin = 97,
};
enum JitOption : int {
  jitInfoLogBuffer = 3,
  jitInfoLogBufferBytes = 4,
  jitErrorLogBuffer = 5,
  jitErrorLogBufferBytes = 6,
};
enum TensorMapDataType : int {
  tensorMapF16 = 6,
  tensorMapF32 = 7,
  tensorMapBF16 = 9,
};
inline constexpr int tensorMapNoInterleave = 0;
inline constexpr int tensorMapSwizzle128B = 3;
inline constexpr int tensorMapPromotionL2256B = 3;
inline constexpr int tensorMapFillZeros = 0;
inline constexpr int functionMaxDynamicShared = 8;
inline constexpr unsigned streamNonBlocking = 1;
inline constexpr int captureThreadLocal = 1;

// X(field, symbol in the library, parameters). The _v2 names are the ones that
// cuda.h's macros stand for; the plain ones are the 32-bit ABI of CUDA 3.
#define EJK_DRIVER_FUNCTIONS(X)                                                                    \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driverGetVersion, "cuDriverGetVersion", (int *version))                                        \
  X(getErrorName, "cuGetErrorName", (CUresult, const char **name))                                 \
  X(getErrorString, "cuGetErrorString", (CUresult, const char **text))                             \
  X(deviceGetCount, "cuDeviceGetCount", (int *count))                                              \
  X(deviceGet, "cuDeviceGet", (CUdevice *, int ordinal))                                           \
  X(deviceGetName, "cuDeviceGetName", (char *name, int size, CUdevice))                            \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice))             \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                         \
  X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                 \
  X(ctxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                                               \
  X(ctxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                                            \
  X(ctxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext *))                                            \
  X(ctxSynchronize, "cuCtxSynchronize", (void))                                                    \
  X(moduleLoadDataEx, "cuModuleLoadDataEx",                                                        \
    (CUmodule *, const void *image, unsigned numOptions, int *options, void **values))             \
  X(moduleUnload, "cuModuleUnload", (CUmodule))                                                    \
  X(moduleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *name))          \
  X(funcSetAttribute, "cuFuncSetAttribute", (CUfunction, int attribute, int value))                \
  X(launchKernel, "cuLaunchKernel",                                                                \
    (CUfunction, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, \
     unsigned blockZ, unsigned sharedBytes, CUstream, void **params, void **extra))                \
  X(memAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t bytes))                                      \
  X(memFree, "cuMemFree_v2", (CUdeviceptr))                                                        \
  X(memcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr dst, const void *src, size_t bytes))               \
  X(memcpyDtoH, "cuMemcpyDtoH_v2", (void *dst, CUdeviceptr src, size_t bytes))                     \
  X(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                       \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream))                                    \
  X(memsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char value, size_t bytes, CUstream))  \
  X(streamCreate, "cuStreamCreate", (CUstream *, unsigned flags))                                  \
  X(streamDestroy, "cuStreamDestroy_v2", (CUstream))                                               \
  X(streamSynchronize, "cuStreamSynchronize", (CUstream))                                          \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int mode))                           \
  X(streamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                                 \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (CUgraphExec *, CUgraph, unsigned long long flags))                                            \
  X(graphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                         \
  X(graphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                         \
  X(graphDestroy, "cuGraphDestroy", (CUgraph))                                                     \
  X(eventCreate, "cuEventCreate", (CUevent *, unsigned flags))                                     \
  X(eventDestroy, "cuEventDestroy_v2", (CUevent))                                                  \
  X(eventRecord, "cuEventRecord", (CUevent, CUstream))                                             \
  X(eventSynchronize, "cuEventSynchronize", (CUevent))                                             \
  X(eventElapsedTime, "cuEventElapsedTime", (float *milliseconds, CUevent start, CUevent end))

// What older drivers lack; who calls them looks first. CUDA 12 brought tensor maps.
#define EJK_OPTIONAL_DRIVER_FUNCTIONS(X)                                                           \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                \
    (CUtensorMap *, int dataType, uint32_t rank, void *address, const uint64_t *sizes,             \
     const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides, int interleave, \
     int swizzle, int promotion, int fill))

/// One pointer per function; null for an optional one that the driver lacks.
struct Driver {
#define EJK_DECLARE(field, symbol, parameters) CUresult(*field) parameters;
  EJK_DRIVER_FUNCTIONS(EJK_DECLARE)
  EJK_OPTIONAL_DRIVER_FUNCTIONS(EJK_DECLARE)
#undef EJK_DECLARE

  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  std::string describe(CUresult result) const;

  /// The error for a driver call that failed: "cuMemAlloc: ...".
  Error error(const char *call, CUresult result) const;
};

/// Opens and initialises the driver on the first call, once per process. After
/// a failure the next call tries again.
Result<const Driver *> loadDriver();

/// Makes `context` current for a scope, only if it is not current already: the
/// switch costs more than all the rest of a launch.
class ContextScope {
public:
  ContextScope(const Driver &driver, CUcontext context) : driver(driver) {
    CUcontext current = nullptr;
    status = driver.ctxGetCurrent(&current);
    if (status == cudaSuccess && current != context) {
      status = driver.ctxPushCurrent(context);
      pushed = status == cudaSuccess;
    }
  }
  ~ContextScope() {
    CUcontext popped;
    if (pushed)
      driver.ctxPopCurrent(&popped);
  }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

  CUresult status;

private:
  const Driver &driver;
  bool pushed = false;
};

/// A device and its primary context, which is retained until release().
struct Device {
  CUdevice device = 0;
  CUcontext context = nullptr;
  int ordinal = 0;
  int major = 0, minor = 0;
  int multiprocessors = 0;

  static Result<Device> retain(const Driver &driver, int ordinal);
  void release(const Driver &driver) { driver.primaryCtxRelease(device); }
};

} // namespace ejk

#endif // EJK_RUNTIME_DRIVER_DRIVER_H
