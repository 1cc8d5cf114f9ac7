//===- TensorHeaders.h - what stands before a file's data -------*- C++ -*-===//
//
// The two formats, as far as they can be read before the data: sizes are known
// and checked before memory is taken for them.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_IO_TENSORHEADERS_H
#define EJK_TOOLS_IO_TENSORHEADERS_H

#include "HostTensor.h"

#include <optional>

namespace ejk {

/// A tensor without its data, which lies at [begin, end) of the file's data.
struct StoredTensor {
  HostTensor tensor;
  uint64_t begin = 0, end = 0;
};

/// How many bytes a safetensors file starts with before its header.
inline constexpr size_t safetensorsPrefix = 8;

/// The header's size; an error when it is past the format's limit.
Result<uint64_t> safetensorsHeaderSize(std::string_view prefix);

/// The tensors in the order of their data, which they cover without overlaps or
/// holes. `dataSize` is what the file has behind the header, where that is known.
Result<std::vector<StoredTensor>> parseSafetensorsHeader(std::string_view header,
                                                         std::optional<uint64_t> dataSize);

/// The most bytes that a .npy file starts with before its header.
inline constexpr size_t npyPrefix = 12;

/// Where a .npy file's header lies.
struct NpyLayout {
  size_t headerOffset;
  uint64_t headerSize;
};
Result<NpyLayout> npyLayout(std::string_view prefix);

/// The tensor of a .npy file, without its data and name.
Result<HostTensor> parseNpyHeader(std::string_view header, std::optional<uint64_t> dataSize);

/// What to say of a file with another number of bytes than the tensor needs.
std::string wrongDataSize(const HostTensor &tensor, uint64_t needed, uint64_t there);

} // namespace ejk

#endif // EJK_TOOLS_IO_TENSORHEADERS_H
