//===- HostTensors.h - the interpreter's tensors in a caller's memory ---------===//
#ifndef EJK_LOWERING_DRIVER_HOSTTENSORS_H
#define EJK_LOWERING_DRIVER_HOSTTENSORS_H

#include "dialect/reference/Tensor.h"
#include <dlpack/dlpack.h>
#include <string>

namespace ejk {
/// Reads a tensor in host memory, of any strides, as an argument of `type`. The tensor has the
/// type's element type, or is f64 where that is a float. On failure, `problem` says what is wrong.
std::optional<reference::Tensor> readHostTensor(const DLTensor &tensor, mlir::Type type,
                                                std::string &problem);

/// A DLPack type for `element`; nothing where there is none.
std::optional<DLDataType> dlpackType(mlir::Type element);

/// The tensor's elements as bytes of `element`, row-major.
std::vector<char> writeHostTensor(const reference::Tensor &tensor, mlir::Type element);
} // namespace ejk

#endif // EJK_LOWERING_DRIVER_HOSTTENSORS_H
