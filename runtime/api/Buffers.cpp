//===- Buffers.cpp - strides, addresses and devices of a call's tensors ---===//

#include "Operands.h"

#include <algorithm>
#include <cstdio>

using namespace ejk;

[[gnu::cold, gnu::noinline]] static ejk_error *fail(const char *kind, const TensorSpec &spec,
                                                    const std::string &what) {
  return makeError(ErrorCode::InvalidTensor, std::string(kind) + " '" + spec.name + "': " + what);
}

static std::string hex(uintptr_t address) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

/// Checks the stride of a pool whose slots have `slot` elements; finds how many `bytes` its memory
/// has, from the first slot to the end of the last.
static ejk_error *checkSlots(const char *kind, const TensorSpec &spec, const DLTensor &tensor,
                             int64_t slot, int64_t &bytes) {
  if (tensor.shape[0] == 1)
    return nullptr;
  int64_t stride = tensor.strides[0], size = dataTypeSize(spec.dtype), inBytes;
  if (stride < slot)
    return fail(kind, spec,
                "the stride of dimension 0 is " + std::to_string(stride) + ", expected at least " +
                    std::to_string(slot) + ", the elements of a slot");
  if (__builtin_mul_overflow(stride, size, &inBytes) ||
      __builtin_mul_overflow(inBytes, tensor.shape[0] - 1, &bytes) ||
      __builtin_add_overflow(bytes, slot * size, &bytes))
    return fail(kind, spec, "its size overflows 64 bits");
  // Kernels read no more at once than a slot without anything behind it allows.
  if (stride != slot && inBytes % spec.align != 0)
    return fail(kind, spec,
                "its slots are " + std::to_string(inBytes) + " bytes apart, expected a multiple of " +
                    std::to_string(spec.align));
  return nullptr;
}

/// Checks the strides between rows, each of which is compact; finds how many `bytes` the tensor's
/// memory has, from its first element to the end of its last.
static ejk_error *checkRows(const char *kind, const TensorSpec &spec, const DLTensor &tensor,
                            int64_t &bytes) {
  int64_t stride = rowStride(tensor), row = elementsFrom(tensor, numRowDims);
  int64_t size = dataTypeSize(spec.dtype), rows = tensor.shape[0] * tensor.shape[1], inBytes, all;
  if (stride < row)
    return fail(kind, spec,
                "its rows are " + std::to_string(stride) + " elements apart, expected at least " +
                    std::to_string(row) + ", the elements of a row");
  if (__builtin_mul_overflow(stride, size, &inBytes) ||
      __builtin_mul_overflow(stride, tensor.shape[1], &all) ||
      __builtin_mul_overflow(inBytes, rows - 1, &bytes) ||
      __builtin_add_overflow(bytes, row * size, &bytes))
    return fail(kind, spec, "its size overflows 64 bits");
  if (tensor.shape[0] != 1 && tensor.strides[0] != all)
    return fail(kind, spec,
                "the stride of dimension 0 is " + std::to_string(tensor.strides[0]) + ", expected " +
                    std::to_string(all) + ": all rows must be equally far apart");
  // Kernels read no more at once than the innermost of a row's dimensions allows.
  bool isVector = size_t(tensor.ndim) > leastRowRank;
  int64_t read = size * (isVector ? tensor.shape[tensor.ndim - 1] : 1);
  int64_t align = std::min(spec.align, read & -read);
  if (stride != row && inBytes % align != 0)
    return fail(kind, spec,
                "its rows are " + std::to_string(inBytes) + " bytes apart, expected a multiple of " +
                    std::to_string(align));
  return nullptr;
}

static ejk_error *checkBuffer(const char *kind, const TensorSpec &spec, const DLTensor &tensor,
                              Range &range) {
  int64_t elements = 1, bytes;
  bool overflow = false;
  for (int d = 0; d < tensor.ndim; ++d)
    overflow |= __builtin_mul_overflow(elements, tensor.shape[d], &elements);
  if (elements == 0 && !overflow) {
    range = {};
    return nullptr;
  }
  if (overflow || __builtin_mul_overflow(elements, dataTypeSize(spec.dtype), &bytes))
    return fail(kind, spec, "its size overflows 64 bits");

  if (tensor.strides) {
    int64_t compact = 1;
    int first = spec.rowStride >= 0 ? int(numRowDims) : spec.hasSlots ? 1 : 0;
    for (int d = tensor.ndim - 1; d >= first; --d) {
      // A dimension of one element is never stepped along.
      if (tensor.shape[d] != 1 && tensor.strides[d] != compact)
        return fail(kind, spec,
                    "the stride of dimension " + std::to_string(d) + " is " +
                        std::to_string(tensor.strides[d]) + ", expected " +
                        std::to_string(compact) + ": the tensor must be compact and row-major");
      compact *= tensor.shape[d];
    }
  }
  if (spec.hasSlots && tensor.strides)
    if (ejk_error *error = checkSlots(kind, spec, tensor, elements / tensor.shape[0], bytes))
      return error;
  if (spec.rowStride >= 0 && rowStride(tensor) > maxRowStride)
    return fail(kind, spec,
                "its rows are " + std::to_string(rowStride(tensor)) +
                    " elements apart, expected at most " + std::to_string(maxRowStride));
  if (spec.rowStride >= 0 && tensor.strides)
    if (ejk_error *error = checkRows(kind, spec, tensor, bytes))
      return error;
  if (!tensor.data)
    return fail(kind, spec, "data is NULL");
  uintptr_t begin = reinterpret_cast<uintptr_t>(tensor.data);
  uintptr_t end;
  if (__builtin_add_overflow(begin, tensor.byte_offset, &begin) ||
      __builtin_add_overflow(begin, uintptr_t(bytes), &end))
    return fail(kind, spec, "it reaches past the end of the address space");
  if (begin & (uintptr_t(spec.align) - 1))
    return fail(kind, spec,
                "its address " + hex(begin) + " is not aligned to " + std::to_string(spec.align) +
                    " bytes");
  range = {begin, end};
  return nullptr;
}

static bool overlap(const Range &a, const Range &b) { return a.begin < b.end && b.begin < a.end; }

ejk_error *ejk::checkBuffers(const Entry &entry, TensorList inputs, TensorList outputs,
                             Buffers &buffers) {
  for (size_t i = 0; i < inputs.count; ++i)
    if (ejk_error *error =
            checkBuffer("input", entry.inputs[i], *inputs.tensors[i], buffers.inputs[i]))
      return error;
  for (size_t o = 0; o < outputs.count; ++o) {
    const TensorSpec &spec = entry.outputs[o];
    Range &range = buffers.outputs[o];
    if (ejk_error *error = checkBuffer("output", spec, *outputs.tensors[o], range))
      return error;
    for (size_t p = 0; p < o; ++p)
      if (overlap(range, buffers.outputs[p]))
        return fail("output", spec,
                    "its memory overlaps that of output '" + entry.outputs[p].name + "'");
    if (spec.inPlace) {
      const Range &input = buffers.inputs[spec.mayAlias];
      bool isApart = spec.hasSlots && outputs.tensors[o]->shape[0] > 1 &&
                     slotStride(*outputs.tensors[o]) != slotStride(*inputs.tensors[spec.mayAlias]);
      if (range.begin != input.begin || range.end != input.end || isApart)
        return fail("output", spec,
                    "it is written in place: its memory must be exactly that of input '" +
                        entry.inputs[spec.mayAlias].name + "'");
    }
    for (size_t i = 0; i < inputs.count; ++i) {
      const Range &input = buffers.inputs[i];
      if (!overlap(range, input))
        continue;
      const std::string &name = entry.inputs[i].name;
      if (spec.mayAlias != int(i))
        return fail("output", spec,
                    "its memory overlaps that of input '" + name +
                        "', which it may not replace in place");
      if (range.begin != input.begin || range.end != input.end)
        return fail("output", spec,
                    "its memory overlaps a part of input '" + name +
                        "'; in place it must be exactly the same buffer");
    }
  }
  return nullptr;
}

static ejk_error *checkDevice(const char *kind, const TensorSpec &spec, const DLTensor &tensor,
                              const ejk_executable &executable) {
  int32_t type = deviceType(tensor), given = tensor.device.device_id;
  int ordinal = executable.device.ordinal;
  if (executable.image) {
    if (type == kDLCPU || type == kDLCUDAHost)
      return nullptr;
    std::string place = type == kDLCUDA ? "CUDA device " + std::to_string(given)
                                        : "a device of DLPack type " + std::to_string(type);
    return fail(kind, spec, "it is in " + place + ", expected host memory (kDLCPU)");
  }
  // Pinned and managed memory is mapped into every device's address space.
  if ((type == kDLCUDA && given == ordinal) || type == kDLCUDAHost || type == kDLCUDAManaged)
    return nullptr;
  std::string place = type == kDLCPU    ? "pageable host memory (kDLCPU)"
                      : type == kDLCUDA ? "CUDA device " + std::to_string(given)
                                        : "a device of DLPack type " + std::to_string(type);
  return fail(kind, spec,
              "it is in " + place + ", expected CUDA device " + std::to_string(ordinal) +
                  " or managed or pinned memory");
}

ejk_error *ejk::checkDevices(const Entry &entry, TensorList inputs, TensorList outputs,
                             const ejk_executable &executable) {
  for (size_t i = 0; i < inputs.count; ++i)
    if (ejk_error *error = checkDevice("input", entry.inputs[i], *inputs.tensors[i], executable))
      return error;
  for (size_t o = 0; o < outputs.count; ++o)
    if (ejk_error *error = checkDevice("output", entry.outputs[o], *outputs.tensors[o], executable))
      return error;
  return nullptr;
}

ejk_error *ejk::layOutWorkspace(const Entry &entry, const Variant &variant, const Symbols &symbols,
                                WorkspaceLayout &layout) {
  constexpr int64_t align = EJK_WORKSPACE_ALIGNMENT;
  layout.bytes = 0;
  for (size_t i = 0; i < variant.workspaces.size(); ++i) {
    const Workspace &workspace = variant.workspaces[i];
    int64_t bytes, padded;
    const char *why = workspace.bytes.evaluate(symbols.values, bytes);
    if (!why && bytes < 0)
      why = "it is negative";
    layout.offsets[i] = layout.bytes;
    if (!why && (__builtin_add_overflow(bytes, align - 1, &padded) ||
                 __builtin_add_overflow(layout.bytes, padded / align * align, &layout.bytes)))
      why = "it overflows 64 bits";
    if (why)
      return makeError(ErrorCode::InvalidTensor,
                       "the size of workspace '" + workspace.name + "', " + workspace.bytes.text() +
                           ", is unusable: " + why + " (" +
                           explainSymbols(entry, workspace.bytes, symbols) + ")");
  }
  return nullptr;
}

ejk_error *ejk::checkWorkspace(const Entry &entry, const WorkspaceLayout &layout,
                               const void *workspace, size_t bytes, const Buffers &buffers) {
  if (layout.bytes == 0)
    return nullptr;
  auto fail = [](const std::string &what) {
    return makeError(ErrorCode::InvalidTensor, "workspace: " + what);
  };
  if (bytes < size_t(layout.bytes))
    return fail(std::to_string(bytes) + " bytes were given, but " + std::to_string(layout.bytes) +
                " are needed");
  if (!workspace)
    return fail("it is NULL, but " + std::to_string(layout.bytes) + " bytes are needed");
  uintptr_t begin = reinterpret_cast<uintptr_t>(workspace);
  if (begin % EJK_WORKSPACE_ALIGNMENT != 0)
    return fail("its address " + hex(begin) + " is not aligned to " +
                std::to_string(EJK_WORKSPACE_ALIGNMENT) + " bytes");
  Range range{begin, 0};
  if (__builtin_add_overflow(begin, uintptr_t(layout.bytes), &range.end))
    return fail("it reaches past the end of the address space");
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    if (overlap(range, buffers.inputs[i]))
      return fail("it overlaps input '" + entry.inputs[i].name + "'");
  for (size_t o = 0; o < entry.outputs.size(); ++o)
    if (overlap(range, buffers.outputs[o]))
      return fail("it overlaps output '" + entry.outputs[o].name + "'");
  return nullptr;
}
