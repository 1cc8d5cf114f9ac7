//===- HostTensor.cpp - a tensor in host memory ---------------------------===//

#include "HostTensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace ejk;

int64_t HostTensor::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::string HostTensor::describe() const {
  std::string text = std::string(dataTypeName(dtype)) + " [";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

Result<int64_t> ejk::tensorBytes(DataType dtype, const std::vector<int64_t> &shape) {
  int64_t bytes = dataTypeSize(dtype);
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return Error{ErrorCode::InvalidTensor,
                   "a dimension is negative or the size overflows 64 bits"};
  return bytes;
}

HostTensor ejk::makeTensor(std::string name, DataType dtype, std::vector<int64_t> shape) {
  HostTensor tensor{std::move(name), dtype, std::move(shape), {}};
  tensor.data.resize(size_t(tensor.numElements() * dataTypeSize(dtype)));
  return tensor;
}

const HostTensor *ejk::findTensor(const std::vector<HostTensor> &tensors, std::string_view name) {
  for (const HostTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// 16-bit floating point
//===----------------------------------------------------------------------===//

namespace {
/// A 16-bit format: 1 sign bit, then exponent and mantissa.
struct Format {
  int mantissaBits;
  int minExponent; ///< of the smallest normal number
  int maxExponent;
};
} // namespace

static constexpr Format half{10, -14, 15}, bfloat{7, -126, 127};

static double decode(Format format, uint16_t bits) {
  double sign = bits & 0x8000 ? -1.0 : 1.0;
  int mantissa = bits & ((1 << format.mantissaBits) - 1);
  int exponent = (bits & 0x7fff) >> format.mantissaBits;
  if (exponent == 0x7fff >> format.mantissaBits)
    return mantissa ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, format.minExponent - format.mantissaBits);
  return sign * std::ldexp(mantissa + (1 << format.mantissaBits),
                           format.minExponent + exponent - 1 - format.mantissaBits);
}

static uint16_t encode(Format format, double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  uint16_t infinity = uint16_t(0x7fff >> format.mantissaBits << format.mantissaBits);
  if (std::isnan(value))
    return sign | infinity | uint16_t(1 << (format.mantissaBits - 1));
  value = std::fabs(value);
  if (std::isinf(value))
    return sign | infinity;
  if (value == 0)
    return sign;
  int exponent = std::max(std::ilogb(value), format.minExponent);
  // The multiple of the last place nearest to the value, ties to even (the
  // default rounding mode). It may reach the next power of two, which the
  // addition below carries into the exponent.
  double scaled = std::nearbyint(std::ldexp(value, format.mantissaBits - exponent));
  int64_t units = int64_t(scaled);
  int64_t encoded = units;
  if (units >= 1 << format.mantissaBits)
    encoded += int64_t(exponent - format.minExponent) << format.mantissaBits;
  return sign | uint16_t(std::min<int64_t>(encoded, infinity));
}

double ejk::halfToDouble(uint16_t bits) { return decode(half, bits); }
double ejk::bfloatToDouble(uint16_t bits) { return decode(bfloat, bits); }
uint16_t ejk::doubleToHalf(double value) { return encode(half, value); }
uint16_t ejk::doubleToBfloat(double value) { return encode(bfloat, value); }

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

template <typename T> static T load(const HostTensor &tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

template <typename T> static void store(HostTensor &tensor, int64_t index, T value) {
  std::memcpy(tensor.data.data() + index * int64_t(sizeof(T)), &value, sizeof(T));
}

double ejk::elementAsDouble(const HostTensor &tensor, int64_t index) {
  switch (tensor.dtype) {
  case DataType::F32:
    return load<float>(tensor, index);
  case DataType::F16:
    return halfToDouble(load<uint16_t>(tensor, index));
  case DataType::BF16:
    return bfloatToDouble(load<uint16_t>(tensor, index));
  case DataType::F64:
    return load<double>(tensor, index);
  case DataType::I32:
    return load<int32_t>(tensor, index);
  case DataType::I64:
    return double(load<int64_t>(tensor, index));
  }
  return 0;
}

void ejk::setElement(HostTensor &tensor, int64_t index, double value) {
  switch (tensor.dtype) {
  case DataType::F32:
    return store(tensor, index, float(value));
  case DataType::F16:
    return store(tensor, index, doubleToHalf(value));
  case DataType::BF16:
    return store(tensor, index, doubleToBfloat(value));
  case DataType::F64:
    return store(tensor, index, value);
  case DataType::I32:
    return store(tensor, index, int32_t(value));
  case DataType::I64:
    return store(tensor, index, int64_t(value));
  }
}

std::vector<double> ejk::toDoubles(const HostTensor &tensor) {
  std::vector<double> values(size_t(tensor.numElements()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = elementAsDouble(tensor, int64_t(i));
  return values;
}

HostTensor ejk::fromDoubles(std::string name, DataType dtype, std::vector<int64_t> shape,
                            const std::vector<double> &values) {
  HostTensor tensor = makeTensor(std::move(name), dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    setElement(tensor, int64_t(i), values[i]);
  return tensor;
}
