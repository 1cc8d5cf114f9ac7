//===- Safetensors.cpp - the safetensors format ---------------------------===//
//
// | u64: header bytes | header, JSON | data |
//
// The header maps a name to {"dtype", "shape", "data_offsets": [begin, end]}.
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include "package/JsonText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

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

static Result<HostTensor> parseTensor(const std::string &name, const json &info,
                                      std::string_view data, int64_t &begin) {
  std::string where = "tensor '" + name + "': ";
  if (!info.is_object() || !info.contains("dtype") || !info["dtype"].is_string() ||
      !info.contains("shape") || !info["shape"].is_array() || !info.contains("data_offsets") ||
      !info["data_offsets"].is_array() || info["data_offsets"].size() != 2)
    return invalid(where + "needs dtype, shape and data_offsets");
  HostTensor tensor;
  tensor.name = name;
  std::string dtype = info["dtype"].get<std::string>();
  auto it = std::find(std::begin(typeNames), std::end(typeNames), dtype);
  if (it == std::end(typeNames))
    return invalid(where + "element type " + dtype + " is none of F32, F16, BF16, F64, I32, I64");
  tensor.dtype = static_cast<DataType>(it - std::begin(typeNames));
  for (const json &size : info["shape"]) {
    tensor.shape.emplace_back();
    if (!natural(size, tensor.shape.back()))
      return invalid(where + "a dimension is not a natural number");
  }
  int64_t end;
  if (!natural(info["data_offsets"][0], begin) || !natural(info["data_offsets"][1], end) ||
      begin > end || uint64_t(end) > data.size())
    return invalid(where + "its data_offsets lie outside the file");
  Result<int64_t> bytes = tensorBytes(tensor.dtype, tensor.shape);
  if (!bytes)
    return invalid(where + bytes.error().message);
  if (*bytes != end - begin)
    return invalid(where + tensor.describe() + " takes " + std::to_string(*bytes) +
                   " bytes, but its data has " + std::to_string(end - begin));
  tensor.data.assign(data.begin() + begin, data.begin() + end);
  return tensor;
}

Result<std::vector<HostTensor>> ejk::parseSafetensors(std::string_view bytes) {
  uint64_t headerBytes;
  if (bytes.size() < sizeof(headerBytes))
    return invalid("it has fewer than 8 bytes");
  std::memcpy(&headerBytes, bytes.data(), sizeof(headerBytes));
  bytes.remove_prefix(sizeof(headerBytes));
  if (headerBytes > bytes.size() || headerBytes > maxHeaderBytes)
    return invalid("its header claims " + std::to_string(headerBytes) +
                   " bytes, more than there are or may be");
  std::string_view header = bytes.substr(0, headerBytes);
  bytes.remove_prefix(headerBytes);
  json root = parseJson(header, 16); // four levels are the format's
  if (!root.is_object())
    return invalid("its header is not a JSON object");

  std::vector<std::pair<int64_t, HostTensor>> ordered;
  for (auto it = root.begin(); it != root.end(); ++it) {
    if (it.key() == "__metadata__")
      continue;
    int64_t begin = 0;
    Result<HostTensor> tensor = parseTensor(it.key(), it.value(), bytes, begin);
    if (!tensor)
      return tensor.error();
    ordered.emplace_back(begin, std::move(*tensor));
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<HostTensor> tensors;
  for (auto &[begin, tensor] : ordered)
    tensors.push_back(std::move(tensor));
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
