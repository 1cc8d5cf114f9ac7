//===- Launch.cpp - the hot path ------------------------------------------===//
//
// No allocation, no synchronisation, no read of any tensor's data. All that is
// computed lives in arrays on the stack, whose sizes package_format.h bounds.
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

#include <limits>

using namespace ejk;

namespace {
/// Every number that the driver needs, for all of the entry's kernels.
struct Plan {
  unsigned grids[EJK_MAX_LAUNCHES];
  uint64_t values[EJK_MAX_ARGUMENTS];
};
} // namespace

[[gnu::cold, gnu::noinline]] static ejk_error *
expressionError(const Entry &entry, const Launch &launch, const char *what, const Expr &expr,
                const char *why, const Symbols &symbols) {
  return makeError(ErrorCode::InvalidTensor, "kernel '" + launch.kernel + "': its " + what + ", " +
                                                 expr.text() + ", is unusable: " + why + " (" +
                                                 explainSymbols(entry, expr, symbols) + ")");
}

// Evaluates everything before the first kernel is enqueued, so that an error
// leaves nothing half done.
static ejk_error *makePlan(const Entry &entry, const ejk_launch_params &params,
                           const Symbols &symbols, const WorkspaceLayout &layout, Plan &plan) {
  auto address = [](const DLTensor *tensor) {
    return reinterpret_cast<uint64_t>(tensor->data) + tensor->byte_offset;
  };
  uint64_t *next = plan.values;
  for (size_t l = 0; l < entry.launches.size(); ++l) {
    const Launch &launch = entry.launches[l];
    int64_t grid;
    const char *why = launch.grid.evaluate(symbols.values, grid);
    if (!why && (grid < 0 || grid > std::numeric_limits<int32_t>::max()))
      why = "a grid has 0 to 2147483647 blocks";
    if (why)
      return expressionError(entry, launch, "grid", launch.grid, why, symbols);
    plan.grids[l] = unsigned(grid);
    for (const Argument &argument : launch.args) {
      int64_t value = 0;
      switch (argument.kind) {
      case Argument::Kind::Input:
        *next++ = address(params.inputs[argument.index]);
        break;
      case Argument::Kind::Output:
        *next++ = address(params.outputs[argument.index]);
        break;
      case Argument::Kind::Workspace:
        *next++ =
            reinterpret_cast<uint64_t>(params.workspace) + uint64_t(layout.offsets[argument.index]);
        break;
      case Argument::Kind::Integer:
        if (const char *why = argument.value.evaluate(symbols.values, value))
          return expressionError(entry, launch, "argument", argument.value, why, symbols);
        *next++ = uint64_t(value);
        break;
      }
    }
  }
  return nullptr;
}

static ejk_error *enqueue(const ejk_executable &executable, size_t index, void *stream,
                          Plan &plan) {
  const Driver &driver = *executable.driver;
  const Entry &entry = executable.package->manifest.entries[index];
  ContextScope scope(driver, executable.device.context);
  if (scope.status != cudaSuccess)
    return makeError(driver.error("cuCtxPushCurrent", scope.status));
  uint64_t *values = plan.values;
  for (size_t l = 0; l < entry.launches.size(); ++l) {
    const Launch &launch = entry.launches[l];
    void *params[EJK_MAX_ARGUMENTS];
    for (size_t a = 0; a < launch.args.size(); ++a)
      params[a] = values++;
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
    TensorList inputs{params->inputs, params->num_inputs};
    TensorList outputs{params->outputs, params->num_outputs};
    Symbols symbols;
    Buffers buffers;
    WorkspaceLayout layout;
    Plan plan;
    if (ejk_error *error = bindInputs(entry, inputs, symbols))
      return error;
    if (ejk_error *error = checkOutputs(entry, outputs, symbols))
      return error;
    if (ejk_error *error = checkDevices(entry, inputs, outputs, executable->device.ordinal))
      return error;
    if (ejk_error *error = checkBuffers(entry, inputs, outputs, buffers))
      return error;
    if (ejk_error *error = layOutWorkspace(entry, symbols, layout))
      return error;
    if (ejk_error *error =
            checkWorkspace(entry, layout, params->workspace, params->workspace_bytes, buffers))
      return error;
    if (ejk_error *error = makePlan(entry, *params, symbols, layout, plan))
      return error;
    return enqueue(*executable, index, params->stream, plan);
  });
}
