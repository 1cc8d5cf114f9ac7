//===- FuzzSafetensors.cpp - any bytes as a safetensors file --------------===//
//
// Reads the bytes from memory and as a file; both must agree, the tensors must
// have the file's data and no more, and what is written again must be read as
// the same. The mutator changes the header's JSON and mends its size.
//
//===----------------------------------------------------------------------===//

#include "JsonMutator.h"
#include "MemoryBound.h"

#include "io/TensorFile.h"
#include "package/Names.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

using namespace ejk;

static void require(bool condition) {
  if (!condition)
    std::abort();
}

static bool areEqual(const std::vector<HostTensor> &a, const std::vector<HostTensor> &b) {
  if (a.size() != b.size())
    return false;
  for (const HostTensor &tensor : a) {
    const HostTensor *other = findTensor(b, tensor.name);
    if (!other || other->dtype != tensor.dtype || other->shape != tensor.shape ||
        other->data != tensor.data)
      return false;
  }
  return true;
}

static Result<std::vector<HostTensor>> readAsFile(const uint8_t *data, size_t size) {
  int file = ::memfd_create("fuzz", 0);
  require(file >= 0 && ::write(file, data, size) == ssize_t(size));
  auto read = readTensors({"/proc/self/fd/" + std::to_string(file)});
  ::close(file);
  return read;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryBound bound(size);
  auto tensors = parseSafetensors({reinterpret_cast<const char *>(data), size});
  auto fromFile = readAsFile(data, size);
  require(bool(tensors) == bool(fromFile));
  if (!tensors) {
    require(!textProblem(tensors.error().message) && !textProblem(fromFile.error().message));
    return 0;
  }
  require(areEqual(*tensors, *fromFile));
  size_t bytes = 0;
  for (const HostTensor &tensor : *tensors) {
    require(!textProblem(tensor.name));
    bytes += tensor.data.size();
  }
  require(bytes <= size);
  auto again = parseSafetensors(serializeSafetensors(*tensors));
  require(again && areEqual(*tensors, *again));
  return 0;
}

#ifdef EJK_FUZZING
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::mt19937 random(seed);
  uint64_t headerSize;
  if (size < sizeof(headerSize) || random() % 8 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(&headerSize, data, sizeof(headerSize));
  std::string body(reinterpret_cast<const char *>(data) + 8, size - 8);
  size_t cut = size_t(std::min<uint64_t>(headerSize, body.size()));
  std::string header = body.substr(0, cut), rest = body.substr(cut);
  if (random() % 4) {
    header = fuzz::mutateJson(header, random);
  } else {
    header.resize(header.size() + 16);
    header.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(&header[0]), header.size() - 16,
                                   header.size()));
  }
  headerSize = header.size();
  std::string mutant(reinterpret_cast<const char *>(&headerSize), sizeof(headerSize));
  mutant += header + rest;
  if (mutant.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, mutant.data(), mutant.size());
  return mutant.size();
}
#endif
