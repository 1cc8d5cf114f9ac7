//===- HostTensor.h - a tensor in host memory -------------------*- C++ -*-===//

#ifndef EJK_TOOLS_IO_HOSTTENSOR_H
#define EJK_TOOLS_IO_HOSTTENSOR_H

#include "package/DataType.h"
#include "package/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ejk {

/// Compact, row-major, little-endian.
struct HostTensor {
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  std::vector<char> data;

  int64_t numElements() const;
  /// "bf16 [4, 128, 64]"
  std::string describe() const;
};

/// Bytes of a tensor of this type and shape; an error when a dimension is
/// negative or the size overflows.
Result<int64_t> tensorBytes(DataType dtype, const std::vector<int64_t> &shape);

/// A tensor of zeros. The size must not overflow.
HostTensor makeTensor(std::string name, DataType dtype, std::vector<int64_t> shape);

/// The tensor called `name`, or null.
const HostTensor *findTensor(const std::vector<HostTensor> &tensors, std::string_view name);

//===----------------------------------------------------------------------===//
// Conversion. Every type widens to f64 exactly, except i64 past 2^53.
//===----------------------------------------------------------------------===//

double halfToDouble(uint16_t bits);
double bfloatToDouble(uint16_t bits);

/// Round to nearest even, straight from f64: going through f32 would round
/// twice.
uint16_t doubleToHalf(double value);
uint16_t doubleToBfloat(double value);

double elementAsDouble(const HostTensor &tensor, int64_t index);
void setElement(HostTensor &tensor, int64_t index, double value);

std::vector<double> toDoubles(const HostTensor &tensor);

/// Rounds to the element type; `values` must have as many elements as the
/// shape.
HostTensor fromDoubles(std::string name, DataType dtype, std::vector<int64_t> shape,
                       const std::vector<double> &values);

} // namespace ejk

#endif // EJK_TOOLS_IO_HOSTTENSOR_H
