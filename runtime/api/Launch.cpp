//===- Launch.cpp - the hot path ------------------------------------------===//
//
// No allocation, no synchronisation, no read of any tensor's data. All that is
// computed lives in arrays on the stack, whose sizes package_format.h bounds.
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

#include <algorithm>
#include <limits>

using namespace ejk;

namespace {
/// Every number that the driver needs, for all of the entry's kernels.
struct Plan {
  unsigned grids[EJK_MAX_LAUNCHES];
  uint64_t values[EJK_MAX_ARGUMENTS];
  CUtensorMap tensorMaps[EJK_MAX_TENSOR_MAPS];
};
} // namespace

static_assert(sizeof(CUtensorMap) == EJK_TENSOR_MAP_SIZE &&
              alignof(CUtensorMap) == EJK_TENSOR_MAP_ALIGNMENT);

[[gnu::cold, gnu::noinline]] static ejk_error *
expressionError(const Entry &entry, const Launch &launch, const char *what, const Expr &expr,
                const char *why, const Symbols &symbols) {
  return makeError(ErrorCode::InvalidTensor, "kernel '" + launch.kernel + "': its " + what + ", " +
                                                 expr.text() + ", is unusable: " + why + " (" +
                                                 explainSymbols(entry, expr, symbols) + ")");
}

[[gnu::cold, gnu::noinline]] static ejk_error *
addressError(const Entry &entry, const Launch &launch, const Argument &argument) {
  size_t i = size_t(argument.index);
  std::string buffer = argument.kind == Argument::Kind::Input ? "input '" + entry.inputs[i].name
                       : argument.kind == Argument::Kind::Output
                           ? "output '" + entry.outputs[i].name
                           : "workspace '" + entry.workspaces[i].name;
  return makeError(ErrorCode::InvalidTensor, "kernel '" + launch.kernel + "': the address of " +
                                                 buffer + "' is NULL or no multiple of " +
                                                 std::to_string(EJK_TENSOR_MAP_ROW_ALIGNMENT) +
                                                 " bytes, which its tensor map needs");
}

// Which one counts from 0, the outermost, as in the manifest.
[[gnu::cold, gnu::noinline]] static ejk_error *
tensorMapError(const Entry &entry, const Launch &launch, const char *list, unsigned which,
               const Expr &expr, const char *why, const Symbols &symbols) {
  std::string what = std::string("tensor map's ") + list + " " + std::to_string(which);
  return expressionError(entry, launch, what.c_str(), expr, why, symbols);
}

// Returns null, or why there is no such size. Kernels name places by signed
// coordinates of 32 bits.
static const char *evaluateSize(const Expr &expr, const Symbols &symbols, uint64_t &size) {
  int64_t value;
  const char *why = expr.evaluate(symbols.values, value);
  if (!why && (value < 0 || value > int64_t(1) << 31))
    why = "a tensor map has sizes of 0 to 2147483648";
  if (!why)
    size = uint64_t(value);
  return why;
}

// From elements to bytes. Returns null, or why there is no such stride.
static const char *evaluateStride(const Expr &expr, const Symbols &symbols, DataType dtype,
                                  uint64_t &bytes) {
  int64_t value, elementBytes = dataTypeSize(dtype);
  if (const char *why = expr.evaluate(symbols.values, value))
    return why;
  if (value < 0 || value >= (int64_t(1) << 40) / elementBytes)
    return "a tensor map has strides of 0 to 1099511627775 bytes";
  bytes = uint64_t(value * elementBytes);
  return bytes % EJK_TENSOR_MAP_ROW_ALIGNMENT == 0
             ? nullptr
             : "a tensor map's stride must be a multiple of 16 bytes";
}

// `memory` is some of the call's own, for the map of a tensor that has none.
static ejk_error *encodeTensorMap(const Driver &driver, const Entry &entry, const Launch &launch,
                                  const Argument &argument, const Symbols &symbols,
                                  uint64_t address, uint64_t memory, CUtensorMap &result) {
  const TensorMap &map = launch.tensorMaps[argument.tensorMap];
  const unsigned rank = unsigned(map.sizes.size());
  // The driver takes the innermost dimension first.
  uint64_t sizes[EJK_MAX_TENSOR_MAP_RANK], strides[EJK_MAX_TENSOR_MAP_RANK - 1];
  uint32_t box[EJK_MAX_TENSOR_MAP_RANK];
  const uint32_t elementStrides[EJK_MAX_TENSOR_MAP_RANK] = {1, 1, 1, 1, 1};
  bool empty = false;
  for (unsigned i = 0; i < rank; ++i) {
    uint64_t &size = sizes[rank - 1 - i];
    if (const char *why = evaluateSize(map.sizes[i], symbols, size))
      return tensorMapError(entry, launch, "size", i, map.sizes[i], why, symbols);
    empty |= size == 0;
    box[rank - 1 - i] = map.box[i];
  }
  if (empty) {
    // The driver takes no empty tensor. Kernels copy only boxes that lie outside of this one; the
    // device faults even at those where the address is of no memory.
    std::fill_n(sizes, rank, 1);
    std::fill_n(strides, rank - 1, EJK_TENSOR_MAP_ROW_ALIGNMENT);
    address = memory - memory % EJK_TENSOR_MAP_ROW_ALIGNMENT;
  }
  for (unsigned i = 0; !empty && i + 1 < rank; ++i)
    if (const char *why = evaluateStride(map.strides[i], symbols, map.dtype, strides[rank - 2 - i]))
      return tensorMapError(entry, launch, "stride", i, map.strides[i], why, symbols);
  if (address == 0 || address % EJK_TENSOR_MAP_ROW_ALIGNMENT != 0)
    return addressError(entry, launch, argument);
  int type = map.dtype == DataType::F32   ? tensorMapF32
             : map.dtype == DataType::F16 ? tensorMapF16
                                          : tensorMapBF16;
  CUresult status = driver.tensorMapEncodeTiled(
      &result, type, rank, reinterpret_cast<void *>(address), sizes, strides, box, elementStrides,
      tensorMapNoInterleave, tensorMapSwizzle128B, tensorMapPromotionL2256B, tensorMapFillZeros);
  if (status == cudaSuccess)
    return nullptr;
  Error error = driver.error("cuTensorMapEncodeTiled", status);
  return makeError(error.code, "kernel '" + launch.kernel + "': " + error.message);
}

// Evaluates everything before the first kernel is enqueued, so that an error
// leaves nothing half done.
static ejk_error *makePlan(const Driver &driver, const Entry &entry,
                           const ejk_launch_params &params, const Symbols &symbols,
                           const WorkspaceLayout &layout, uint64_t memory, Plan &plan) {
  auto address = [](const DLTensor *tensor) {
    return reinterpret_cast<uint64_t>(tensor->data) + tensor->byte_offset;
  };
  uint64_t *next = plan.values;
  CUtensorMap *nextMap = plan.tensorMaps;
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
        *next = address(params.inputs[argument.index]);
        break;
      case Argument::Kind::Output:
        *next = address(params.outputs[argument.index]);
        break;
      case Argument::Kind::Workspace:
        *next =
            reinterpret_cast<uint64_t>(params.workspace) + uint64_t(layout.offsets[argument.index]);
        break;
      case Argument::Kind::Integer:
        if (const char *why = argument.value.evaluate(symbols.values, value))
          return expressionError(entry, launch, "argument", argument.value, why, symbols);
        *next = uint64_t(value);
        break;
      }
      if (argument.tensorMap >= 0) {
        // A launch that is skipped may have no buffers.
        if (grid > 0)
          if (ejk_error *error = encodeTensorMap(driver, entry, launch, argument, symbols, *next,
                                                 memory, *nextMap))
            return error;
        ++nextMap;
      }
      ++next;
    }
  }
  return nullptr;
}

static ejk_error *enqueue(const ejk_executable &executable, size_t index, void *stream,
                          Plan &plan) {
  const Driver &driver = *executable.driver;
  const Entry &entry = executable.package->manifest.entries[index];
  uint64_t *values = plan.values;
  CUtensorMap *tensorMaps = plan.tensorMaps;
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
    Range *ends = buffers.outputs + outputs.count;
    Range *written = std::find_if(buffers.outputs, ends,
                                  [](const Range &range) { return range.begin < range.end; });
    if (written == ends)
      return nullptr; // nothing is to be computed
    // For tensor maps, too: the driver makes none where no context is current.
    const Driver &driver = *executable->driver;
    ContextScope scope(driver, executable->device.context);
    if (scope.status != cudaSuccess)
      return makeError(driver.error("cuCtxPushCurrent", scope.status));
    if (ejk_error *error =
            makePlan(driver, entry, *params, symbols, layout, uint64_t(written->begin), plan))
      return error;
    return enqueue(*executable, index, params->stream, plan);
  });
}
