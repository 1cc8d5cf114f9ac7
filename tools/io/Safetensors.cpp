//===- Safetensors.cpp - the safetensors format ---------------------------===//
//
// | u64: header bytes | header, JSON | data |
//
// The header maps a name to {"dtype", "shape", "data_offsets": [begin, end]}.
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"
#include "TensorHeaders.h"

#include "package/JsonText.h"
#include "package/Names.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>

using namespace ejk;
using nlohmann::json;

// The format's own limit.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

// In DataType's order.
static constexpr const char *typeNames[] = {"F32", "F16", "BF16", "F64", "I32", "I64"};

static Error invalid(const std::string &message) {
  return {ErrorCode::Io, "not a usable safetensors file: " + message};
}

static bool natural(const json &value, int64_t &result) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
    return false;
  result = value.get<int64_t>();
  return true;
}

static Result<StoredTensor> parseTensor(const std::string &name, const json &info) {
  if (const char *problem = textProblem(name))
    return invalid("tensor " + inQuotes(name) + ": " + problem);
  std::string where = "tensor " + inQuotes(name) + ": ";
  if (!info.is_object() || !info.contains("dtype") || !info["dtype"].is_string() ||
      !info.contains("shape") || !info["shape"].is_array() || !info.contains("data_offsets") ||
      !info["data_offsets"].is_array() || info["data_offsets"].size() != 2)
    return invalid(where + "needs dtype, shape and data_offsets");
  StoredTensor stored;
  HostTensor &tensor = stored.tensor;
  tensor.name = name;
  const std::string &dtype = info["dtype"].get_ref<const std::string &>();
  auto it = std::find(std::begin(typeNames), std::end(typeNames), dtype);
  if (it == std::end(typeNames))
    return invalid(where + "element type " + inQuotes(dtype) +
                   " is none of F32, F16, BF16, F64, I32, I64");
  tensor.dtype = static_cast<DataType>(it - std::begin(typeNames));
  for (const json &size : info["shape"]) {
    tensor.shape.emplace_back();
    if (!natural(size, tensor.shape.back()))
      return invalid(where + "a dimension is not a natural number");
  }
  int64_t begin, end;
  if (!natural(info["data_offsets"][0], begin) || !natural(info["data_offsets"][1], end) ||
      begin > end)
    return invalid(where + "its data_offsets are no range");
  Result<int64_t> bytes = tensorBytes(tensor.dtype, tensor.shape);
  if (!bytes)
    return invalid(where + bytes.error().message);
  if (*bytes != end - begin)
    return invalid(where + tensor.describe() + " takes " + std::to_string(*bytes) +
                   " bytes, but its data has " + std::to_string(end - begin));
  stored.begin = uint64_t(begin);
  stored.end = uint64_t(end);
  return stored;
}

Result<uint64_t> ejk::safetensorsHeaderSize(std::string_view prefix) {
  uint64_t size;
  if (prefix.size() < sizeof(size))
    return invalid("it has fewer than 8 bytes");
  std::memcpy(&size, prefix.data(), sizeof(size));
  if (size > maxHeaderBytes)
    return invalid("its header claims " + std::to_string(size) + " bytes, more than " +
                   std::to_string(maxHeaderBytes));
  return size;
}

Result<std::vector<StoredTensor>> ejk::parseSafetensorsHeader(std::string_view header,
                                                              std::optional<uint64_t> dataSize) {
  JsonDocument document;
  if (!document.parse(header, 16)) // four levels are the format's
    return invalid("its header: " + document.problem());
  const json &root = document.root();
  if (!root.is_object())
    return invalid("its header is not a JSON object");
  std::vector<StoredTensor> tensors;
  for (auto it = root.begin(); it != root.end(); ++it) {
    if (it.key() == "__metadata__")
      continue;
    Result<StoredTensor> tensor = parseTensor(it.key(), it.value());
    if (!tensor)
      return tensor.error();
    tensors.push_back(std::move(*tensor));
  }
  // A tensor without elements comes before the one whose data starts there.
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor &a, const StoredTensor &b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  uint64_t end = 0;
  for (const StoredTensor &stored : tensors) {
    if (stored.begin != end)
      return invalid("tensor " + inQuotes(stored.tensor.name) + ": its data starts at byte " +
                     std::to_string(stored.begin) + ", but the data before it ends at byte " +
                     std::to_string(end) + "; the format allows neither overlaps nor holes");
    end = stored.end;
  }
  if (dataSize && end != *dataSize)
    return invalid("its tensors have " + std::to_string(end) + " bytes of data, but " +
                   std::to_string(*dataSize) + " follow the header");
  return tensors;
}

Result<std::vector<HostTensor>> ejk::parseSafetensors(std::string_view bytes) {
  Result<uint64_t> headerSize = safetensorsHeaderSize(bytes);
  if (!headerSize)
    return headerSize.error();
  bytes.remove_prefix(safetensorsPrefix);
  if (*headerSize > bytes.size())
    return invalid("its header is truncated");
  std::string_view data = bytes.substr(*headerSize);
  Result<std::vector<StoredTensor>> stored =
      parseSafetensorsHeader(bytes.substr(0, *headerSize), data.size());
  if (!stored)
    return stored.error();
  std::vector<HostTensor> tensors;
  for (StoredTensor &each : *stored) {
    each.tensor.data.assign(data.begin() + each.begin, data.begin() + each.end);
    tensors.push_back(std::move(each.tensor));
  }
  return tensors;
}

std::string ejk::serializeSafetensors(const std::vector<HostTensor> &tensors) {
  json root = json::object();
  size_t offset = 0;
  for (const HostTensor &tensor : tensors) {
    root[tensor.name] = {{"dtype", typeNames[int(tensor.dtype)]},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string header = root.dump(-1, ' ', false, json::error_handler_t::replace);
  // Spaces align the data to 8 bytes for readers that map the file.
  header.append((8 - header.size() % 8) % 8, ' ');
  uint64_t headerBytes = header.size();
  std::string bytes(reinterpret_cast<const char *>(&headerBytes), sizeof(headerBytes));
  bytes.reserve(sizeof(headerBytes) + headerBytes + offset);
  bytes += header;
  for (const HostTensor &tensor : tensors)
    bytes.append(tensor.data.data(), tensor.data.size());
  return bytes;
}
