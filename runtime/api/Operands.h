//===- Operands.h - checking tensors against a manifest ---------*- C++ -*-===//
//
// Each function returns null or an error that names the operand, what was
// expected and what was given. None allocates unless it fails.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_API_OPERANDS_H
#define EJK_RUNTIME_API_OPERANDS_H

#include "Handles.h"

#include "ejk/package_format.h"

#include <cstring>

namespace ejk {

struct TensorList {
  const DLTensor *const *tensors;
  size_t count;
};

/// Values of an entry's symbols, B, T, ..., and then the device's facts, which
/// are set once a variant was chosen for a device.
struct Symbols {
  int64_t values[EJK_MAX_SYMBOLS + EJK_NUM_DEVICE_FACTS];
};

/// Addresses [begin, end).
struct Range {
  uintptr_t begin = 0, end = 0;
};

/// A call's tensors as address ranges.
struct Buffers {
  Range inputs[EJK_MAX_TENSORS], outputs[EJK_MAX_TENSORS];
};

/// Where each workspace buffer starts, and the size of all.
struct WorkspaceLayout {
  int64_t offsets[EJK_MAX_WORKSPACES];
  int64_t bytes;
};

/// "bf16", or the DLPack code for a type that ejk does not have.
std::string describeDataType(DLDataType type);
DLDataType toDLDataType(DataType type);

/// The number that the caller gave. As an enumerator it could not be read if it
/// were none.
inline int32_t deviceType(const DLTensor &tensor) {
  int32_t type;
  static_assert(sizeof(type) == sizeof(tensor.device.device_type));
  std::memcpy(&type, &tensor.device.device_type, sizeof(type));
  return type;
}

/// How many elements the dimensions from `first` on have.
inline int64_t elementsFrom(const DLTensor &tensor, size_t first) {
  uint64_t elements = 1; // checkBuffers refuses a tensor for which this overflows
  for (size_t d = first; d < size_t(tensor.ndim); ++d)
    elements *= uint64_t(tensor.shape[d]);
  return int64_t(elements);
}

/// How many elements the slots of a pool are apart, which has a dimension at least.
inline int64_t slotStride(const DLTensor &pool) {
  if (pool.strides)
    return pool.strides[0];
  return elementsFrom(pool, 1);
}

/// The most elements that rows may be apart: kernels multiply by numbers of 32 bits.
inline constexpr int64_t maxRowStride = INT32_MAX;

/// How many elements the rows of a tensor are apart. A dimension of one element is never stepped
/// along, so its stride says nothing.
inline int64_t rowStride(const DLTensor &tensor) {
  if (tensor.strides && elementsFrom(tensor, 0) != 0)
    for (int d = int(numRowDims) - 1; d >= 0; --d)
      if (tensor.shape[d] != 1)
        return tensor.strides[d];
  return elementsFrom(tensor, numRowDims);
}

/// Checks types and shapes of the inputs and the entry's constraints, and
/// finds the symbols' values.
ejk_error *bindInputs(const Entry &entry, TensorList inputs, Symbols &symbols);

/// Checks types and shapes of the outputs.
ejk_error *checkOutputs(const Entry &entry, TensorList outputs, const Symbols &symbols);

/// Checks strides, pointers, alignment and that outputs overlap nothing but
/// what they may alias. Types and shapes must have been checked.
ejk_error *checkBuffers(const Entry &entry, TensorList inputs, TensorList outputs,
                        Buffers &buffers);

/// Checks that kernels on the executable's device can reach every tensor.
ejk_error *checkDevices(const Entry &entry, TensorList inputs, TensorList outputs,
                        const ejk_executable &executable);

/// Reads and checks the cu_seqlens inputs that are in host memory.
ejk_error *checkSequenceOffsets(const Entry &entry, TensorList inputs, const Symbols &symbols);

ejk_error *layOutWorkspace(const Entry &entry, const Variant &variant, const Symbols &symbols,
                           WorkspaceLayout &layout);

/// Checks the caller's workspace against what is needed and the tensors.
ejk_error *checkWorkspace(const Entry &entry, const WorkspaceLayout &layout, const void *workspace,
                          size_t bytes, const Buffers &buffers);

/// "'q' gave T = 128, 'h0' gave N = 4": where the symbols of an expression come
/// from.
std::string explainSymbols(const Entry &entry, const Expr &expr, const Symbols &symbols);

} // namespace ejk

#endif // EJK_RUNTIME_API_OPERANDS_H
