//===- HostTensors.cpp - the interpreter's tensors in a caller's memory ---===//
#include "lowering/driver/HostTensors.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"
#include <cstring>

using namespace mlir;
using namespace ejk;

std::optional<DLDataType> ejk::dlpackType(Type element) {
  if (element.isBF16())
    return DLDataType{kDLBfloat, 16, 1};
  if (isa<FloatType>(element))
    return DLDataType{kDLFloat, uint8_t(element.getIntOrFloatBitWidth()), 1};
  if (element.isIndex())
    return DLDataType{kDLInt, 64, 1};
  if (element.isSignlessInteger(32) || element.isSignlessInteger(64))
    return DLDataType{kDLInt, uint8_t(element.getIntOrFloatBitWidth()), 1};
  return std::nullopt;
}

static bool equal(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

template <typename T> static T load(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// A number of 16 bits, in the format that `type` has.
static double loadSixteen(const char *from, FloatType type) {
  llvm::APFloat value(type.getFloatSemantics(), llvm::APInt(16, load<uint16_t>(from)));
  bool loses;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return value.convertToDouble();
}

static void readElement(const char *from, DLDataType dtype, FloatType type,
                        reference::Tensor &tensor, size_t index) {
  if (dtype.code == kDLInt) {
    tensor.ints[index] = dtype.bits == 32 ? load<int32_t>(from) : load<int64_t>(from);
    return;
  }
  tensor.floats[index] = dtype.bits == 64   ? load<double>(from)
                         : dtype.bits == 32 ? double(load<float>(from))
                                            : loadSixteen(from, type);
}

std::optional<reference::Tensor> ejk::readHostTensor(const DLTensor &tensor, Type type,
                                                     std::string &problem) {
  Type element = getElementTypeOrSelf(type);
  std::optional<DLDataType> own = dlpackType(element);
  bool isDouble = isa<FloatType>(element) && equal(tensor.dtype, {kDLFloat, 64, 1});
  if (!own || !(equal(tensor.dtype, *own) || isDouble)) {
    problem = "has another element type";
    return std::nullopt;
  }
  if (tensor.device.device_type != kDLCPU) {
    problem = "is not in host memory";
    return std::nullopt;
  }
  if (tensor.ndim < 0 || (tensor.ndim && !tensor.shape)) {
    problem = tensor.ndim < 0 ? "has a rank of " + std::to_string(tensor.ndim) : "has no shape";
    return std::nullopt;
  }
  ArrayRef<int64_t> shape(tensor.shape, tensor.ndim);
  std::optional<size_t> count = reference::checkSize(shape);
  if (!count || (*count && !tensor.data)) {
    problem = count ? "has no data" : "has a shape that is no tensor's";
    return std::nullopt;
  }
  reference::Tensor result = reference::Tensor::zeros(element, shape);
  const char *data = static_cast<const char *>(tensor.data) + tensor.byte_offset;
  SmallVector<int64_t> index(shape.size(), 0);
  for (size_t i = 0; i < *count; ++i) {
    int64_t offset = i;
    if (tensor.strides) {
      offset = 0;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        offset += index[dim] * tensor.strides[dim];
      for (size_t dim = shape.size(); dim-- > 0;) {
        if (++index[dim] < shape[dim])
          break;
        index[dim] = 0;
      }
    }
    readElement(data + offset * (tensor.dtype.bits / 8), tensor.dtype,
                dyn_cast<FloatType>(element), result, i);
  }
  return result;
}

template <typename T> static void store(std::vector<char> &bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(value), &value, sizeof(value));
}

std::vector<char> ejk::writeHostTensor(const reference::Tensor &tensor, Type element) {
  DLDataType dtype = *dlpackType(element);
  std::vector<char> bytes(tensor.size() * (dtype.bits / 8));
  for (size_t i = 0; i < tensor.size(); ++i) {
    if (dtype.code == kDLInt && dtype.bits == 32)
      store(bytes, i, int32_t(tensor.ints[i]));
    else if (dtype.code == kDLInt)
      store(bytes, i, int64_t(tensor.ints[i]));
    else if (dtype.bits == 64)
      store(bytes, i, tensor.floats[i]);
    else if (dtype.bits == 32)
      store(bytes, i, float(tensor.floats[i]));
    else {
      llvm::APFloat value(tensor.floats[i]);
      bool loses;
      value.convert(cast<FloatType>(element).getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &loses);
      store(bytes, i, uint16_t(value.bitcastToAPInt().getZExtValue()));
    }
  }
  return bytes;
}
