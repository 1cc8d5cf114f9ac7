//===- TensorMap.h - tensors that bulk copies cut boxes from ------*- C++ -*-===//
#ifndef EJK_TEST_EMULATOR_TENSORMAP_H
#define EJK_TEST_EMULATOR_TENSORMAP_H

#include <cstdint>

namespace emulator {

/// What the 128 opaque bytes of a tensor map hold here. Dimension 0 is contiguous.
struct TensorMap {
  static constexpr uint64_t kMagic = 0x70616d2d6b6a65;

  uint64_t magic;
  uint64_t address;
  uint64_t strides[5]; // in bytes
  uint32_t lasts[5];   // a dimension's size less 1
  uint16_t box[5];
  uint8_t rank, elementBytes;
  uint8_t width; // of the swizzle, in pieces of 16 bytes; 1 for none

  unsigned rowBytes() const { return box[0] * elementBytes; }
  /// From row to row of a box in shared memory: as far as the swizzle is wide.
  unsigned pitch() const { return width > 1 ? 16u * width : rowBytes(); }
  unsigned rows() const;
  unsigned bytes() const { return rows() * rowBytes(); }
};
static_assert(sizeof(TensorMap) <= 128);

/// The arguments of cuTensorMapEncodeTiled.
struct TiledTensor {
  int type;
  unsigned rank;
  uint64_t address;
  const uint64_t *sizes, *strides;
  const uint32_t *box, *elementStrides;
  int interleave, swizzle, promotion, fill;
};

/// Why the driver takes no such tensor; null where it does, which fills `map`.
const char *encode(const TiledTensor &tensor, TensorMap &map);

} // namespace emulator

#endif // EJK_TEST_EMULATOR_TENSORMAP_H
