//===- TensorMap.cpp - tensors that bulk copies cut boxes from ------------===//
#include "TensorMap.h"

using namespace emulator;

unsigned TensorMap::rows() const {
  unsigned rows = 1;
  for (unsigned i = 1; i < rank; ++i)
    rows *= box[i];
  return rows;
}

/// Of CUtensorMapDataType: from bytes, by way of integers, to the floating-point types.
static unsigned bytesOf(int type) {
  static const unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return type < 0 || type >= int(sizeof(bytes) / sizeof(*bytes)) ? 0 : bytes[type];
}

/// The driver's own constraints, and where it says so what is not emulated.
static const char *check(const TiledTensor &tensor) {
  unsigned elementBytes = bytesOf(tensor.type);
  if (!elementBytes)
    return "there is no such type of elements";
  if (tensor.rank < 1 || tensor.rank > 5)
    return "the rank is not from 1 to 5";
  if (tensor.interleave)
    return "interleaved tensors are not emulated";
  if (tensor.swizzle < 0 || tensor.swizzle > 3)
    return "there is no such swizzle, or it is not emulated";
  if (tensor.promotion < 0 || tensor.promotion > 3)
    return "there is no such promotion";
  if (tensor.fill)
    return "only zeros outside the tensor are emulated";
  if (!tensor.address || tensor.address % 16)
    return "the address is not aligned to 16 bytes";
  uint64_t bytes = elementBytes;
  for (unsigned i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] < 1 || tensor.sizes[i] > 1ull << 32)
      return "a dimension is not from 1 to 2^32";
    if (i && (tensor.strides[i - 1] % 16 || tensor.strides[i - 1] >= 1ull << 40))
      return "a stride is no multiple of 16 bytes below 2^40";
    if (tensor.box[i] < 1 || tensor.box[i] > 256)
      return "a dimension of the box is not from 1 to 256";
    bytes *= tensor.box[i];
    if (tensor.elementStrides[i] != 1)
      return tensor.elementStrides[i] < 1 || tensor.elementStrides[i] > 8
                 ? "a stride of elements is not from 1 to 8"
                 : "strides of elements are not emulated";
  }
  if (bytes > 228 * 1024)
    return "the box is larger than shared memory";
  unsigned rowBytes = tensor.box[0] * elementBytes;
  if (rowBytes % 16)
    return "the box's inner dimension is no multiple of 16 bytes";
  if (tensor.swizzle && rowBytes > 16u << tensor.swizzle)
    return "the box's inner dimension is wider than the swizzle";
  return nullptr;
}

const char *emulator::encode(const TiledTensor &tensor, TensorMap &map) {
  if (const char *reason = check(tensor))
    return reason;
  map = {};
  map.magic = TensorMap::kMagic;
  map.address = tensor.address;
  map.rank = uint8_t(tensor.rank);
  map.elementBytes = uint8_t(bytesOf(tensor.type));
  map.width = uint8_t(1u << tensor.swizzle);
  for (unsigned i = 0; i < tensor.rank; ++i) {
    map.strides[i] = i ? tensor.strides[i - 1] : map.elementBytes;
    map.lasts[i] = uint32_t(tensor.sizes[i] - 1);
    map.box[i] = uint16_t(tensor.box[i]);
  }
  return nullptr;
}
