//===- Npy.cpp - NumPy's .npy format --------------------------------------===//
//
// | \x93NUMPY | major, minor | u16 or u32: header bytes | header | data |
//
// The header is a Python dictionary with the keys descr, fortran_order, shape.
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include <cctype>
#include <cstring>
#include <optional>

using namespace ejk;

static constexpr std::string_view magic("\x93NUMPY", 6);

static Error invalid(const std::string &message) {
  return {ErrorCode::Io, "not a usable .npy file: " + message};
}

// The text after 'key': in the dictionary, without leading blanks.
static std::optional<std::string_view> valueOf(std::string_view header, std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos)
    return std::nullopt;
  header.remove_prefix(at + key.size() + 2);
  while (!header.empty() &&
         (std::isspace(static_cast<unsigned char>(header[0])) || header[0] == ':'))
    header.remove_prefix(1);
  return header;
}

static bool parseShape(std::string_view text, std::vector<int64_t> &shape) {
  if (text.empty() || text[0] != '(')
    return false;
  text.remove_prefix(1);
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ','))
      text.remove_prefix(1);
    if (text.empty())
      return false;
    if (text[0] == ')')
      return true;
    int64_t size = 0;
    size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits)
      if (__builtin_mul_overflow(size, 10, &size) ||
          __builtin_add_overflow(size, text[digits] - '0', &size))
        return false;
    if (digits == 0 || shape.size() >= 64)
      return false;
    text.remove_prefix(digits);
    shape.push_back(size);
  }
}

static std::optional<DataType> typeOf(std::string_view descr) {
  if (descr == "<f4")
    return DataType::F32;
  if (descr == "<f2")
    return DataType::F16;
  if (descr == "<f8")
    return DataType::F64;
  if (descr == "<i4")
    return DataType::I32;
  if (descr == "<i8")
    return DataType::I64;
  return std::nullopt;
}

Result<HostTensor> ejk::parseNpy(std::string_view bytes) {
  if (bytes.size() < 10 || bytes.substr(0, magic.size()) != magic)
    return invalid("it does not start with \\x93NUMPY");
  int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3)
    return invalid("unknown version " + std::to_string(major));
  size_t lengthBytes = major == 1 ? 2 : 4;
  uint32_t headerBytes = 0;
  if (bytes.size() < 8 + lengthBytes)
    return invalid("it is truncated");
  std::memcpy(&headerBytes, bytes.data() + 8, lengthBytes);
  bytes.remove_prefix(8 + lengthBytes);
  if (headerBytes > bytes.size())
    return invalid("its header is truncated");
  std::string_view header = bytes.substr(0, headerBytes);
  bytes.remove_prefix(headerBytes);

  auto descr = valueOf(header, "descr");
  auto order = valueOf(header, "fortran_order");
  auto shape = valueOf(header, "shape");
  if (!descr || !order || !shape)
    return invalid("its header needs descr, fortran_order and shape");
  size_t quote =
      descr->size() > 1 && (*descr)[0] == '\'' ? descr->find('\'', 1) : std::string_view::npos;
  if (quote == std::string_view::npos)
    return invalid("its element type is a structure");
  std::string_view type = descr->substr(1, quote - 1);
  HostTensor tensor;
  std::optional<DataType> dtype = typeOf(type);
  if (!dtype)
    return invalid(
        "element type '" + std::string(type) + "' is none of <f2, <f4, <f8, <i4, <i8" +
        (type == "|V2" || type == "<V2" ? " (store bfloat16 in a safetensors file)" : ""));
  tensor.dtype = *dtype;
  if (order->substr(0, 4) == "True")
    return invalid("it is in Fortran order; save numpy.ascontiguousarray(x)");
  if (order->substr(0, 5) != "False")
    return invalid("fortran_order is neither True nor False");
  if (!parseShape(*shape, tensor.shape))
    return invalid("its shape is malformed");
  Result<int64_t> size = tensorBytes(tensor.dtype, tensor.shape);
  if (!size)
    return invalid(size.error().message);
  if (uint64_t(*size) != bytes.size())
    return invalid(tensor.describe() + " takes " + std::to_string(*size) + " bytes, but " +
                   std::to_string(bytes.size()) + " follow the header");
  tensor.data.assign(bytes.begin(), bytes.end());
  return tensor;
}

Result<std::string> ejk::serializeNpy(const HostTensor &tensor) {
  static constexpr const char *descr[] = {"<f4", "<f2", nullptr, "<f8", "<i4", "<i8"};
  const char *type = descr[int(tensor.dtype)];
  if (!type)
    return Error{ErrorCode::Io, "'" + tensor.name +
                                    "' is bf16, which .npy has no type for; "
                                    "write a .safetensors file"};
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.shape)
    header += std::to_string(size) + ", ";
  header += "), }";
  // The data starts at a multiple of 64 bytes, after a line end.
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(total - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string bytes(magic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += char(header.size() & 0xff);
  bytes += char(header.size() >> 8);
  bytes += header;
  bytes.append(tensor.data.data(), tensor.data.size());
  return bytes;
}
