//===- MemoryBound.h - how much memory one input may take -------*- C++ -*-===//

#ifndef EJK_TEST_FUZZ_MEMORYBOUND_H
#define EJK_TEST_FUZZ_MEMORYBOUND_H

#include <cstddef>

namespace ejk::fuzz {

/// While it lives, the program ends where more than 64 MiB, or than 16 times
/// the input, are in use at once. Measured under an address sanitizer alone.
class MemoryBound {
public:
  explicit MemoryBound(size_t inputSize);
  ~MemoryBound();
};

} // namespace ejk::fuzz

#endif // EJK_TEST_FUZZ_MEMORYBOUND_H
