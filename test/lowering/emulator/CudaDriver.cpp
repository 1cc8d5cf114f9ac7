//===- CudaDriver.cpp - a CUDA driver whose device is this emulator -------===//
//
// Stands in for libcuda.so.1 (EJK_CUDA_DRIVER names it), so that ejk-run, and
// whoever else runs kernel packages, runs their PTX here:
//
//   EJK_CUDA_DRIVER=libejk-emulated-cuda.so ejk-run f.mlir --device cuda --random … --check
//
// EJK_EMULATOR_SEED=n         another order of warps
// EJK_EMULATOR_WITHOUT=op:n   leaves out the n-th instruction, from 1, of each kernel
//                             whose opcode is `op`: what follows must be found out
// EJK_EMULATOR_STATISTICS=1   says what each launch executed, on standard error
//
//===----------------------------------------------------------------------===//
#include "Cluster.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace emulator;

namespace {
enum Result {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  invalidPtx = 218,
  notFound = 500,
  launchFailed = 719,
  notSupported = 801
};

class Allocations : public GlobalMemory {
public:
  void check(uint64_t address, unsigned bytes) const override {
    auto it = sizes.upper_bound(address);
    if (it == sizes.begin() || address + bytes > std::prev(it)->first + std::prev(it)->second)
      throw Fault("touches " + std::to_string(bytes) + " bytes outside all allocated memory");
    if (bytes & (bytes - 1) ? false : address % bytes != 0)
      throw Fault("touches " + std::to_string(bytes) + " bytes that are misaligned");
  }
  std::map<uint64_t, size_t> sizes;
};

struct Module {
  std::map<std::string, Kernel> kernels;
};
} // namespace

static Allocations allocations;
static std::string lastFault;

/// Leaves out what EJK_EMULATOR_WITHOUT says.
static void plant(Kernel &kernel) {
  const char *without = getenv("EJK_EMULATOR_WITHOUT");
  if (!without)
    return;
  std::string text = without, opcode = text.substr(0, text.find(':'));
  unsigned left = unsigned(std::stoul(text.substr(text.find(':') + 1)));
  for (Instruction &instruction : kernel.code)
    if (instruction.opcode == opcode && --left == 0) {
      instruction = Instruction();
      instruction.action = Action::move; // of nothing
      instruction.operands = {{}, {}};
      fprintf(stderr, "emulator: left out %s of %s\n", without, kernel.name.c_str());
      return;
    }
}

static void describe(const Launch &launch, const Statistics &statistics) {
  fprintf(stderr, "%s: %u blocks of %u threads\n", launch.kernel->name.c_str(), launch.blocks,
          launch.threads);
  for (auto &[opcode, times] : statistics.executed) {
    fprintf(stderr, "  %10lu %s", (unsigned long)times, opcode.c_str());
    auto it = statistics.answers.find(opcode);
    if (it != statistics.answers.end())
      fprintf(stderr, ", %lu answers of shared memory", (unsigned long)it->second);
    fprintf(stderr, "\n");
  }
}

/// Runs several clusters at a time, which start in the order of their numbers: blocks of some wait
/// for blocks of those before.
static void runSideBySide(const Launch &launch, unsigned clusters, unsigned seed,
                          Statistics *statistics) {
  constexpr unsigned together = 4;
  Sums sums;
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<Cluster>> running;
  unsigned started = 0;
  auto start = [&](Cluster &cluster) {
    bool isLeft = started < clusters;
    if (isLeft)
      cluster.begin(started++);
    return isLeft;
  };
  while (running.size() < together && started < clusters) {
    running.push_back(std::make_unique<Cluster>(
        LaunchContext{launch, allocations, statistics, &sums}, seed + started));
    start(*running.back());
  }
  while (!running.empty()) {
    size_t which = random() % running.size();
    if (!running[which]->goOn() && !start(*running[which]))
      running.erase(running.begin() + ptrdiff_t(which));
  }
}

static int runLaunch(const Launch &launch) {
  const char *seed = getenv("EJK_EMULATOR_SEED");
  Statistics statistics;
  bool counts = getenv("EJK_EMULATOR_STATISTICS") != nullptr;
  try {
    unsigned first = seed ? unsigned(atoi(seed)) : 0;
    unsigned clusters = launch.blocks / launch.kernel->clusterBlocks;
    const std::vector<Instruction> &code = launch.kernel->code;
    if (std::any_of(code.begin(), code.end(),
                    [](const Instruction &each) { return each.action == Action::addInMemory; })) {
      runSideBySide(launch, clusters, first, counts ? &statistics : nullptr);
    } else {
      Cluster cluster({launch, allocations, counts ? &statistics : nullptr, nullptr}, first);
      // A device runs them in any order. Where one writes another's rows, the last one decides.
      bool backwards = getenv("EJK_EMULATOR_BACKWARDS") != nullptr;
      for (unsigned i = 0; i < clusters; ++i)
        cluster.run(backwards ? clusters - 1 - i : i);
    }
  } catch (Fault &fault) {
    lastFault = launch.kernel->name + ": " + fault.what();
    return launchFailed;
  }
  if (counts)
    describe(launch, statistics);
  return success;
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuInit(unsigned) { return success; }
EXPORT int cuDriverGetVersion(int *version) { return *version = 13000, success; }
EXPORT int cuGetErrorName(int result, const char **name) {
  *name = result == launchFailed   ? "CUDA_ERROR_LAUNCH_FAILED"
          : result == invalidPtx   ? "CUDA_ERROR_INVALID_PTX"
          : result == notFound     ? "CUDA_ERROR_NOT_FOUND"
          : result == outOfMemory  ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == notSupported ? "CUDA_ERROR_NOT_SUPPORTED"
                                   : "CUDA_ERROR_INVALID_VALUE";
  return success;
}
EXPORT int cuGetErrorString(int result, const char **text) {
  *text = result == launchFailed || result == invalidPtx ? lastFault.c_str() : "emulated";
  return success;
}

// One device, of compute capability 9.0 or what EJK_EMULATOR_CAPABILITY says, as "120".
static int capability() {
  const char *text = getenv("EJK_EMULATOR_CAPABILITY");
  return text ? atoi(text) : 90;
}

// As many as an H200 has, or what EJK_EMULATOR_MULTIPROCESSORS says: what launchers choose by.
static int multiprocessors() {
  const char *text = getenv("EJK_EMULATOR_MULTIPROCESSORS");
  return text ? atoi(text) : 132;
}

EXPORT int cuDeviceGetCount(int *count) { return *count = 1, success; }
EXPORT int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, success; }
EXPORT int cuDeviceGetName(char *name, int size, int) {
  return snprintf(name, size_t(size), "the emulator"), success;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 16   ? multiprocessors()
           : attribute == 38 ? 1 << 20 // the cache's size
           : attribute == 75 ? capability() / 10
           : attribute == 76 ? capability() % 10
           : attribute == 97 ? 227 * 1024 // a block's shared memory
                             : 0;
  return success;
}

static char context;
EXPORT int cuDevicePrimaryCtxRetain(void **result, int) { return *result = &context, success; }
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return success; }
EXPORT int cuCtxGetCurrent(void **result) { return *result = &context, success; }
EXPORT int cuCtxPushCurrent_v2(void *) { return success; }
EXPORT int cuCtxPopCurrent_v2(void **result) { return *result = &context, success; }
EXPORT int cuCtxSynchronize() { return success; }

EXPORT int cuModuleLoadDataEx(void **result, const void *image, unsigned, int *, void **) {
  const char *text = static_cast<const char *>(image);
  if (strncmp(text, "\177ELF", 4) == 0)
    return lastFault = "machine code is not emulated", invalidPtx;
  auto module = std::make_unique<Module>();
  try {
    module->kernels = parseModule(text);
  } catch (Fault &fault) {
    return lastFault = fault.what(), fprintf(stderr, "emulator: %s\n", fault.what()), invalidPtx;
  }
  for (auto &kernel : module->kernels)
    plant(kernel.second);
  return *result = module.release(), success;
}
EXPORT int cuModuleUnload(void *module) { return delete static_cast<Module *>(module), success; }
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  auto &kernels = static_cast<Module *>(module)->kernels;
  auto it = kernels.find(name);
  return it == kernels.end() ? notFound : (*function = &it->second, success);
}
EXPORT int cuFuncSetAttribute(void *, int, int) { return success; }

EXPORT int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                          unsigned threads, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                          void *, void **parameters, void **) {
  const Kernel &kernel = *static_cast<const Kernel *>(function);
  if (gridY * gridZ * blockY * blockZ != 1 || threads % 32)
    return invalidValue;
  if (gridX % kernel.clusterBlocks) {
    fprintf(stderr, "emulator: no launch: %u blocks in clusters of %u\n", gridX,
            kernel.clusterBlocks);
    return invalidValue;
  }
  Launch launch{&kernel, {}, gridX, threads, sharedBytes};
  for (unsigned i = 0; i < kernel.parameterBytes.size(); ++i) {
    launch.arguments.emplace_back();
    memcpy(launch.arguments.back().bytes, parameters[i], kernel.parameterBytes[i]);
  }
  return runLaunch(launch);
}

EXPORT int cuTensorMapEncodeTiled(void *result, int type, unsigned rank, void *address,
                                  const uint64_t *sizes, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *elementStrides,
                                  int interleave, int swizzle, int promotion, int fill) {
  TensorMap map;
  const char *reason = encode({type, rank, reinterpret_cast<uint64_t>(address), sizes, strides, box,
                               elementStrides, interleave, swizzle, promotion, fill},
                              map);
  if (!reason && reinterpret_cast<uint64_t>(result) % 64)
    reason = "the map is not aligned to 64 bytes";
  if (reason)
    return fprintf(stderr, "emulator: no tensor map: %s\n", reason), invalidValue;
  memset(result, 0, 128);
  return memcpy(result, &map, sizeof(map)), success;
}

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  void *memory;
  if (posix_memalign(&memory, 512, bytes) != 0)
    return outOfMemory;
  *pointer = reinterpret_cast<uint64_t>(memory);
  allocations.sizes[*pointer] = bytes;
  return success;
}
EXPORT int cuMemFree_v2(uint64_t pointer) {
  allocations.sizes.erase(pointer);
  return free(reinterpret_cast<void *>(pointer)), success;
}
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  return memcpy(reinterpret_cast<void *>(to), from, bytes), success;
}
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  return memcpy(to, reinterpret_cast<const void *>(from), bytes), success;
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *) {
  return memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes), success;
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *) {
  return memset(reinterpret_cast<void *>(to), value, bytes), success;
}
EXPORT int cuStreamCreate(void **stream, unsigned) { return *stream = &context, success; }
EXPORT int cuStreamDestroy_v2(void *) { return success; }
EXPORT int cuStreamSynchronize(void *) { return success; }

// There is no time here: nothing can be recorded or measured.
#define EJK_UNSUPPORTED(name)                                                                      \
  EXPORT int name() { return notSupported; }
EJK_UNSUPPORTED(cuStreamBeginCapture_v2)
EJK_UNSUPPORTED(cuStreamEndCapture)
EJK_UNSUPPORTED(cuGraphInstantiateWithFlags)
EJK_UNSUPPORTED(cuGraphLaunch)
EJK_UNSUPPORTED(cuGraphExecDestroy)
EJK_UNSUPPORTED(cuGraphDestroy)
EJK_UNSUPPORTED(cuEventCreate)
EJK_UNSUPPORTED(cuEventDestroy_v2)
EJK_UNSUPPORTED(cuEventRecord)
EJK_UNSUPPORTED(cuEventSynchronize)
EJK_UNSUPPORTED(cuEventElapsedTime)
