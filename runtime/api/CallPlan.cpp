//===- CallPlan.cpp - a call, checked and evaluated -----------------------===//

#include "CallPlan.h"

#include <algorithm>
#include <limits>

using namespace ejk;

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
                           : "workspace '" + std::to_string(i);
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
static ejk_error *planTensorMap(const Entry &entry, const Launch &launch, const Argument &argument,
                                const Symbols &symbols, uint64_t address, bool addressIsKnown,
                                uint64_t memory, TensorMapPlan &plan) {
  const TensorMap &map = launch.tensorMaps[argument.tensorMap];
  const unsigned rank = unsigned(map.sizes.size());
  // The driver takes the innermost dimension first.
  bool empty = false;
  for (unsigned i = 0; i < rank; ++i) {
    uint64_t &size = plan.sizes[rank - 1 - i];
    if (const char *why = evaluateSize(map.sizes[i], symbols, size))
      return tensorMapError(entry, launch, "size", i, map.sizes[i], why, symbols);
    empty |= size == 0;
    plan.box[rank - 1 - i] = map.box[i];
  }
  if (empty) {
    // The driver takes no empty tensor. Kernels only issue TMA loads outside of this one; the
    // device faults at those, too, where the address is not mapped.
    std::fill_n(plan.sizes, rank, 1);
    std::fill_n(plan.strides, rank - 1, EJK_TENSOR_MAP_ROW_ALIGNMENT);
    address = memory - memory % EJK_TENSOR_MAP_ROW_ALIGNMENT;
  }
  for (unsigned i = 0; !empty && i + 1 < rank; ++i)
    if (const char *why =
            evaluateStride(map.strides[i], symbols, map.dtype, plan.strides[rank - 2 - i]))
      return tensorMapError(entry, launch, "stride", i, map.strides[i], why, symbols);
  if ((addressIsKnown || empty) && (address == 0 || address % EJK_TENSOR_MAP_ROW_ALIGNMENT != 0))
    return addressError(entry, launch, argument);
  plan.address = address;
  return nullptr;
}

static uint64_t addressOf(const DLTensor *tensor) {
  return reinterpret_cast<uint64_t>(tensor->data) + tensor->byte_offset;
}

static ejk_error *planLaunch(const Entry &entry, const Launch &launch,
                             const CallArguments &arguments, const WorkspaceLayout &layout,
                             uint64_t memory, const Symbols &symbols, unsigned &gridSize,
                             uint64_t *&next, TensorMapPlan *&nextMap) {
  // Without a device, a condition may have no value yet; the launch may then be made.
  bool isKnown = arguments.executable ||
                 !(launch.when && launch.when->usesSymbolFrom(int(entry.symbols.size())));
  bool isMade = true;
  if (isKnown)
    if (ejk_error *error =
            evaluateCondition(entry, "kernel", launch.kernel, launch.when, symbols, isMade))
      return error;
  gridSize = 0;
  if (!isMade) {
    next += launch.args.size();
    nextMap += launch.tensorMaps.size();
    return nullptr;
  }
  int64_t grid;
  const char *why = launch.grid.evaluate(symbols.values, grid);
  if (!why && (grid < 0 || grid > std::numeric_limits<int32_t>::max()))
    why = "a grid has 0 to 2147483647 blocks";
  if (why)
    return expressionError(entry, launch, "grid", launch.grid, why, symbols);
  gridSize = unsigned(grid);
  for (const Argument &argument : launch.args) {
    int64_t value = 0;
    bool addressIsKnown = true;
    switch (argument.kind) {
    case Argument::Kind::Input:
      *next = addressOf(arguments.inputs.tensors[argument.index]);
      break;
    case Argument::Kind::Output:
      *next = addressOf(arguments.outputs.tensors[argument.index]);
      break;
    case Argument::Kind::Workspace:
      *next = reinterpret_cast<uint64_t>(arguments.workspace) +
              uint64_t(layout.offsets[argument.index]);
      addressIsKnown = arguments.executable != nullptr;
      break;
    case Argument::Kind::SlotStride:
      *next = uint64_t(slotStride(*arguments.inputs.tensors[argument.index]));
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
        if (ejk_error *error = planTensorMap(entry, launch, argument, symbols, *next,
                                             addressIsKnown, memory, *nextMap))
          return error;
      ++nextMap;
    }
    ++next;
  }
  return nullptr;
}

static ejk_error *planVariant(const Entry &entry, const Variant &variant,
                              const CallArguments &arguments, const Buffers &buffers,
                              uint64_t memory, CallPlan &plan) {
  WorkspaceLayout layout;
  if (ejk_error *error = layOutWorkspace(entry, variant, plan.symbols, layout))
    return error;
  if (arguments.executable)
    if (ejk_error *error =
            checkWorkspace(entry, layout, arguments.workspace, arguments.workspaceBytes, buffers))
      return error;
  if (plan.isEmpty)
    return nullptr;
  uint64_t *next = plan.values;
  TensorMapPlan *nextMap = plan.tensorMaps;
  for (size_t l = 0; l < variant.launches.size(); ++l)
    if (ejk_error *error = planLaunch(entry, variant.launches[l], arguments, layout, memory,
                                      plan.symbols, plan.grids[l], next, nextMap))
      return error;
  return nullptr;
}

ejk_error *ejk::planCall(const Manifest &manifest, const Entry &entry,
                         const CallArguments &arguments, CallPlan &plan) {
  const TensorList &inputs = arguments.inputs, &outputs = arguments.outputs;
  Buffers buffers;
  if (ejk_error *error = bindInputs(entry, inputs, plan.symbols))
    return error;
  if (ejk_error *error = checkOutputs(entry, outputs, plan.symbols))
    return error;
  if (const ejk_executable *executable = arguments.executable)
    if (ejk_error *error = checkDevices(entry, inputs, outputs, *executable))
      return error;
  if (ejk_error *error = checkBuffers(entry, inputs, outputs, buffers))
    return error;
  Range *ends = buffers.outputs + outputs.count;
  Range *written = std::find_if(buffers.outputs, ends,
                                [](const Range &range) { return range.begin < range.end; });
  plan.isEmpty = written == ends;
  uint64_t memory = plan.isEmpty ? 0 : uint64_t(written->begin);
  if (arguments.executable) {
    if (ejk_error *error = chooseVariant(*arguments.executable, entry, arguments.schedule,
                                         plan.symbols, plan.variant))
      return error;
    return planVariant(entry, entry.variants[plan.variant], arguments, buffers, memory, plan);
  }
  PossibleVariants possible;
  if (ejk_error *error = findPossibleVariants(manifest, entry, plan.symbols, possible))
    return error;
  for (size_t v = 0; v < entry.variants.size(); ++v)
    if (possible.may[v])
      if (ejk_error *error =
              planVariant(entry, entry.variants[v], arguments, buffers, memory, plan))
        return error;
  return nullptr;
}
