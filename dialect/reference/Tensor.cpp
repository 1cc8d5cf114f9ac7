//===- Tensor.cpp - values of the interpreter -----------------------------===//
#include "dialect/reference/Tensor.h"
#include "dialect/reference/RowMath.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace ejk::reference;

Tensor Tensor::zeros(Type element, ArrayRef<int64_t> shape) {
  Tensor t;
  t.element = element;
  t.shape.assign(shape.begin(), shape.end());
  size_t size = checkSize(shape).value_or(0);
  if (t.isFloat())
    t.floats.resize(size);
  else
    t.ints.resize(size);
  return t;
}
Tensor Tensor::scalar(Type element, double value) {
  Tensor t = zeros(element, {});
  t.floats[0] = value;
  return t;
}
Tensor Tensor::scalar(Type element, int64_t value) {
  Tensor t = zeros(element, {});
  t.ints[0] = value;
  return t;
}

std::string Tensor::typeName() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (shape.empty())
    os << element;
  else
    os << RankedTensorType::get(shape, element);
  return text;
}

std::optional<size_t> ejk::reference::checkSize(ArrayRef<int64_t> shape) {
  // 2³¹ elements are 16 GiB here.
  constexpr int64_t limit = int64_t(1) << 31;
  int64_t size = 1;
  for (int64_t dim : shape)
    if (dim < 0)
      return std::nullopt;
  for (int64_t dim : shape)
    if (dim == 0)
      return 0;
  for (int64_t dim : shape) {
    if (dim > limit / size)
      return std::nullopt;
    size *= dim;
  }
  return size;
}

bool ejk::reference::isSupportedElement(Type element) {
  if (element.isF64() || element.isF32() || element.isF16() || element.isBF16() ||
      element.isIndex())
    return true;
  auto integer = dyn_cast<IntegerType>(element);
  return integer && integer.isSignless() && integer.getWidth() <= 64;
}

std::string ejk::reference::spellShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

double ejk::reference::roundTo(Type type, double value) {
  if (type.isF32())
    return double(float(value));
  if (type.isBF16())
    return toBF16(value);
  if (type.isF16())
    return toF16(value);
  return value;
}

void ejk::reference::roundRow(Type type, double *row, size_t count) {
  const RowMath &math = rowMath(Precision::native);
  if (type.isF32())
    math.rowToF32(row, count);
  else if (type.isBF16())
    math.rowToBF16(row, count);
  else if (type.isF16())
    math.rowToF16(row, count);
}

int64_t ejk::reference::wrapTo(Type type, int64_t value) {
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (width == 1)
    return value & 1;
  if (width >= 64)
    return value;
  return int64_t(uint64_t(value) << (64 - width)) >> (64 - width);
}
