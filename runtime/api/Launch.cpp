//===- Launch.cpp - the hot path ------------------------------------------===//
//
// No allocation, no synchronisation, no read of any tensor's data. All that is
// computed lives in arrays on the stack, whose sizes package_format.h bounds.
//
//===----------------------------------------------------------------------===//

#include "CallPlan.h"

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
static ejk_error *encodeTensorMaps(const Driver &driver, const Entry &entry, const CallPlan &plan,
                                   CUtensorMap *maps) {
  const uint32_t elementStrides[EJK_MAX_TENSOR_MAP_RANK] = {1, 1, 1, 1, 1};
  const TensorMapPlan *next = plan.tensorMaps;
  for (size_t l = 0; l < entry.launches.size(); ++l)
    for (const TensorMap &map : entry.launches[l].tensorMaps) {
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
      return makeError(error.code, "kernel '" + entry.launches[l].kernel + "': " + error.message);
    }
  return nullptr;
}

static ejk_error *enqueue(const ejk_executable &executable, size_t index, void *stream,
                          CallPlan &plan, CUtensorMap *tensorMaps) {
  const Driver &driver = *executable.driver;
  const Entry &entry = executable.package->manifest.entries[index];
  uint64_t *values = plan.values;
  for (size_t l = 0; l < entry.launches.size(); ++l) {
    const Launch &launch = entry.launches[l];
    void *params[EJK_MAX_ARGUMENTS];
    for (size_t a = 0; a < launch.args.size(); ++a) {
      params[a] = values++;
      if (launch.args[a].tensorMap >= 0)
        params[a] = tensorMaps++;
    }
    // The driver refuses an empty grid; nothing to do is not an error here.
    if (plan.grids[l] == 0)
      continue;
    CUresult result = driver.launchKernel(
        executable.functions[index][l], plan.grids[l], 1, 1, launch.block[0], launch.block[1],
        launch.block[2], launch.sharedBytes, static_cast<CUstream>(stream), params, nullptr);
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
    if (ejk_error *error =
            checkStructSize("ejk_launch_params", params->struct_size, sizeof(*params)))
      return error;
    const std::vector<Entry> &entries = executable->package->manifest.entries;
    if (index >= entries.size())
      return makeError(ErrorCode::InvalidArgument, "entry index " + std::to_string(index) +
                                                       " is out of range; the package has " +
                                                       std::to_string(entries.size()) + " entries");
    const Entry &entry = entries[index];
    CallArguments arguments;
    arguments.inputs = {params->inputs, params->num_inputs};
    arguments.outputs = {params->outputs, params->num_outputs};
    arguments.workspace = params->workspace;
    arguments.workspaceBytes = params->workspace_bytes;
    arguments.hasDevice = true;
    arguments.deviceOrdinal = executable->device.ordinal;
    CallPlan plan;
    if (ejk_error *error = planCall(entry, arguments, plan))
      return error;
    if (plan.isEmpty)
      return nullptr;
    // For tensor maps, too: the driver makes none where no context is current.
    const Driver &driver = *executable->driver;
    ContextScope scope(driver, executable->device.context);
    if (scope.status != cudaSuccess)
      return makeError(driver.error("cuCtxPushCurrent", scope.status));
    CUtensorMap tensorMaps[EJK_MAX_TENSOR_MAPS];
    if (ejk_error *error = encodeTensorMaps(driver, entry, plan, tensorMaps))
      return error;
    return enqueue(*executable, index, params->stream, plan, tensorMaps);
  });
}
