//===- Launch.cpp - the hot path ------------------------------------------===//
//
// No allocation. All that is computed lives in arrays on the stack, whose sizes
// package_format.h bounds. On a GPU, no synchronisation and no read of any
// tensor's data, either.
//
//===----------------------------------------------------------------------===//

#include "CpuExecutable.h"
#include "UnusedRows.h"

using namespace ejk;

static_assert(sizeof(CUtensorMap) == EJK_TENSOR_MAP_SIZE &&
              alignof(CUtensorMap) == EJK_TENSOR_MAP_ALIGNMENT);

static int driverType(DataType dtype) {
  return dtype == DataType::F32   ? tensorMapF32
         : dtype == DataType::F16 ? tensorMapF16
                                  : tensorMapBF16;
}

// All maps before the first kernel is enqueued, so that an error leaves nothing
// half done.
static ejk_error *encodeTensorMaps(const Driver &driver, const Variant &variant,
                                   const CallPlan &plan, CUtensorMap *maps) {
  const uint32_t elementStrides[EJK_MAX_TENSOR_MAP_RANK] = {1, 1, 1, 1, 1};
  const TensorMapPlan *next = plan.tensorMaps;
  for (size_t l = 0; l < variant.launches.size(); ++l)
    for (const TensorMap &map : variant.launches[l].tensorMaps) {
      const TensorMapPlan &planned = *next++;
      CUtensorMap *result = maps++;
      if (plan.grids[l] == 0)
        continue;
      CUresult status = driver.tensorMapEncodeTiled(
          result, driverType(map.dtype), uint32_t(map.sizes.size()),
          reinterpret_cast<void *>(planned.address), planned.sizes, planned.strides, planned.box,
          elementStrides, tensorMapNoInterleave, tensorMapSwizzle128B, tensorMapPromotionL2256B,
          tensorMapFillZeros);
      if (status == cudaSuccess)
        continue;
      Error error = driver.error("cuTensorMapEncodeTiled", status);
      return makeError(error.code, "kernel '" + variant.launches[l].kernel + "': " + error.message);
    }
  return nullptr;
}

static ejk_error *enqueue(const ejk_executable &executable, size_t index, void *stream,
                          CallPlan &plan, CUtensorMap *tensorMaps) {
  const Driver &driver = *executable.driver;
  const Variant &variant = executable.package->manifest.entries[index].variants[plan.variant];
  uint64_t *values = plan.values;
  for (size_t l = 0; l < variant.launches.size(); ++l) {
    const Launch &launch = variant.launches[l];
    void *params[EJK_MAX_LAUNCH_ARGUMENTS];
    for (size_t a = 0; a < launch.args.size(); ++a) {
      params[a] = values++;
      if (launch.args[a].tensorMap >= 0)
        params[a] = tensorMaps++;
    }
    // The driver refuses an empty grid; nothing to do is not an error here.
    if (plan.grids[l] == 0)
      continue;
    CUresult result =
        driver.launchKernel(executable.functions[index][plan.variant][l], plan.grids[l], 1, 1,
                            launch.block[0], launch.block[1], launch.block[2], launch.sharedBytes,
                            static_cast<CUstream>(stream), params, nullptr);
    if (result != cudaSuccess) {
      Error error = driver.error("cuLaunchKernel", result);
      return makeError(error.code, "kernel '" + launch.kernel + "': " + error.message);
    }
  }
  return nullptr;
}

ejk_error *ejk_launch(const ejk_executable *executable, size_t index,
                      const ejk_launch_params *params) {
  return guarded([&]() -> ejk_error * {
    if (!executable || !params)
      return makeError(ErrorCode::InvalidArgument,
                       executable ? "params is NULL" : "executable is NULL");
    if (ejk_error *error = checkStructSize("ejk_launch_params", params->struct_size,
                                           offsetof(ejk_launch_params, schedule)))
      return error;
    const Manifest &manifest = executable->package->manifest;
    ejk_error *wrongIndex = nullptr;
    const Entry *entry = findEntry(manifest, index, wrongIndex);
    if (!entry)
      return wrongIndex;
    CallArguments arguments;
    arguments.inputs = {params->inputs, params->num_inputs};
    arguments.outputs = {params->outputs, params->num_outputs};
    arguments.workspace = params->workspace;
    arguments.workspaceBytes = params->workspace_bytes;
    arguments.executable = executable;
    if (EJK_HAS_FIELD(*params, schedule))
      arguments.schedule = params->schedule;
    bool zeroes = EJK_HAS_FIELD(*params, zero_unused_rows) && params->zero_unused_rows;
    if (zeroes)
      if (ejk_error *error = checkUnusedRows(*entry))
        return error;
    CallPlan plan;
    if (ejk_error *error = planCall(manifest, *entry, arguments, plan))
      return error;
    if (plan.isEmpty)
      return nullptr;
    if (executable->image) {
      // Offsets lie in memory that is at hand.
      if (ejk_error *error = checkSequenceOffsets(*entry, arguments.inputs, plan.symbols))
        return error;
      CpuThreads threads;
      if (EJK_HAS_FIELD(*params, parallel_context)) {
        threads.parallelFor = params->parallel_for;
        threads.context = params->parallel_context;
      }
      if (EJK_HAS_FIELD(*params, max_threads))
        threads.most = params->max_threads;
      runOnCpu(*executable, index, plan, threads);
      if (zeroes)
        zeroUnusedRows(*entry, arguments, plan.symbols);
      return nullptr;
    }
    // For tensor maps, too: the driver makes none where no context is current.
    const Driver &driver = *executable->driver;
    ContextScope scope(driver, executable->device.context);
    if (scope.status != cudaSuccess)
      return makeError(driver.error("cuCtxPushCurrent", scope.status));
    CUtensorMap tensorMaps[EJK_MAX_TENSOR_MAPS];
    if (ejk_error *error =
            encodeTensorMaps(driver, entry->variants[plan.variant], plan, tensorMaps))
      return error;
    if (ejk_error *error = enqueue(*executable, index, params->stream, plan, tensorMaps))
      return error;
    return zeroes ? enqueueUnusedRows(*entry, arguments, plan.symbols, params->stream) : nullptr;
  });
}
