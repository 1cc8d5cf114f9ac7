//===- MatrixDescriptor.h - an operand of wgmma in shared memory --*- C++ -*-===//
//
// 64 bits say where a matrix lies, as pieces of 16 bytes: 8 numbers side by side along
// the dimension that is contiguous, K ("K-major") or the other one, M or N ("MN-major").
// Eight lines of `width` pieces follow each other and make an atom; `width` is 1 without
// a swizzle, and 2, 4 or 8 with one of 32, 64 or 128 bytes. Where each piece then lies is
// its address with bits 4 to 6 xored by bits 7 to 9, as many of them as the swizzle has.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_MATRIXDESCRIPTOR_H
#define EJK_TEST_EMULATOR_MATRIXDESCRIPTOR_H

#include <cstdint>

namespace emulator {

/// Where the piece lies whose address would be `address` without a swizzle of `width`
/// pieces, whose pattern starts at a multiple of 1024 bytes.
inline uint64_t swizzled(uint64_t address, unsigned width) {
  return address ^ (address >> 7 & (width - 1)) << 4;
}

struct MatrixDescriptor {
  uint64_t bits;

  uint64_t start() const { return (bits & 0x3fff) << 4; }
  uint64_t leading() const { return (bits >> 16 & 0x3fff) << 4; }
  uint64_t stride() const { return (bits >> 32 & 0x3fff) << 4; }
  /// By which bits 7 to 9 of addresses are ahead of the swizzle's pattern.
  uint64_t base() const { return (bits >> 49 & 7) << 7; }
  /// Pieces that the swizzle permutes.
  unsigned width() const {
    static const unsigned widths[] = {1, 8, 4, 2};
    return widths[bits >> 62];
  }

  /// Of the piece with numbers (outer, 8·piece…) of a K-major matrix; outer is of M or N.
  uint64_t alongK(unsigned outer, unsigned piece) const {
    uint64_t toNext = width() == 1 ? leading() : 16;
    return place(outer % 8 * width() * 16 + outer / 8 * stride() + piece * toNext);
  }
  /// Of the piece with numbers (8·piece…, k) of an MN-major matrix.
  uint64_t alongOuter(unsigned piece, unsigned k) const {
    uint64_t toNextAtom = width() == 1 ? stride() : leading();
    uint64_t toNextLines = width() == 1 ? leading() : stride();
    return place(piece % width() * 16 + piece / width() * toNextAtom + k % 8 * width() * 16 +
                 k / 8 * toNextLines);
  }

private:
  uint64_t place(uint64_t offset) const {
    return swizzled(start() + offset - base(), width()) + base();
  }
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_MATRIXDESCRIPTOR_H
