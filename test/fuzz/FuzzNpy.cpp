//===- FuzzNpy.cpp - any bytes as a .npy file -----------------------------===//
//
// The tensor has the file's data, and what is written again is read as the
// same. The mutator mends the size of the header.
//
//===----------------------------------------------------------------------===//

#include "MemoryBound.h"

#include "io/TensorFile.h"
#include "package/Names.h"

#include <cstdlib>
#include <cstring>
#include <random>

using namespace ejk;

static void require(bool condition) {
  if (!condition)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryBound bound(size);
  Result<HostTensor> tensor = parseNpy({reinterpret_cast<const char *>(data), size});
  if (!tensor) {
    require(!textProblem(tensor.error().message));
    return 0;
  }
  require(tensor->data.size() <= size);
  require(int64_t(tensor->data.size()) == tensor->numElements() * dataTypeSize(tensor->dtype));
  Result<std::string> bytes = serializeNpy(*tensor);
  require(bool(bytes));
  Result<HostTensor> again = parseNpy(*bytes);
  require(again && again->shape == tensor->shape && again->dtype == tensor->dtype &&
          again->data == tensor->data);
  return 0;
}

#ifdef EJK_FUZZING
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  std::mt19937 random(seed);
  const char *end =
      size > 10 ? static_cast<const char *>(std::memchr(data + 10, '}', size - 10)) : nullptr;
  if (!end || random() % 4 == 0)
    return size;
  size_t header = size_t(end - reinterpret_cast<const char *>(data)) + 1 - 10;
  std::memcpy(data, "\x93NUMPY\x01\x00", 8);
  data[8] = uint8_t(header);
  data[9] = uint8_t(header >> 8);
  return size;
}
#endif
