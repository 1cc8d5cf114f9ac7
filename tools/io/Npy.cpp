//===- Npy.cpp - NumPy's .npy format --------------------------------------===//
//
// | \x93NUMPY | major, minor | u16 or u32: header bytes | header | data |
//
// The header is a Python dictionary with the keys descr, fortran_order, shape.
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"
#include "TensorHeaders.h"

#include "package/Names.h"

#include <algorithm>
#include <cstring>
#include <optional>

using namespace ejk;

static constexpr std::string_view magic("\x93NUMPY", 6);

// NumPy's own headers have some hundred bytes.
static constexpr uint64_t maxHeaderSize = 1 << 16;

static Error invalid(const std::string &message) {
  return {ErrorCode::Io, "not a usable .npy file: " + message};
}

namespace {
/// The header, read word by word as Python would.
class HeaderText {
public:
  explicit HeaderText(std::string_view text) : text(text) {}

  bool atEnd() { return skipBlanks(), text.empty(); }
  bool startsWith(std::string_view word) {
    return skipBlanks(), text.substr(0, word.size()) == word;
  }
  bool take(std::string_view word) {
    if (!startsWith(word))
      return false;
    text.remove_prefix(word.size());
    return true;
  }

  /// What stands in quotes; NumPy escapes nothing that is allowed there.
  std::optional<std::string_view> takeString() {
    if (!startsWith("'") && !startsWith("\""))
      return std::nullopt;
    size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string_view value = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return value;
  }

  std::optional<int64_t> takeNumber() {
    skipBlanks();
    size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    int64_t number = 0;
    for (char digit : text.substr(0, digits))
      if (__builtin_mul_overflow(number, 10, &number) ||
          __builtin_add_overflow(number, digit - '0', &number))
        return std::nullopt;
    text.remove_prefix(digits);
    return digits ? std::optional(number) : std::nullopt;
  }

  /// A tuple of numbers: (), (2,) or (2, 3).
  std::optional<std::vector<int64_t>> takeShape() {
    std::vector<int64_t> shape;
    if (!take("("))
      return std::nullopt;
    while (!take(")")) {
      std::optional<int64_t> size = takeNumber();
      if (!size || shape.size() == maxRank)
        return std::nullopt;
      shape.push_back(*size);
      // A number in parentheses is a tuple only with a comma behind it.
      if (!take(",") && (shape.size() < 2 || !startsWith(")")))
        return std::nullopt;
    }
    return shape;
  }

private:
  static constexpr size_t maxRank = 64;

  void skipBlanks() { text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size())); }

  std::string_view text;
};

/// The header's three values; each is there once.
struct HeaderValues {
  std::optional<std::string_view> descr;
  std::optional<bool> isFortranOrder;
  std::optional<std::vector<int64_t>> shape;

  /// An empty string, or what is wrong.
  std::string parse(HeaderText text);

private:
  std::string parseValue(std::string_view key, HeaderText &text);
};
} // namespace

std::string HeaderValues::parseValue(std::string_view key, HeaderText &text) {
  if (key == "descr" && !descr) {
    if (text.startsWith("["))
      return "its element type is a structure";
    descr = text.takeString();
    return descr ? "" : "its element type is malformed";
  }
  if (key == "fortran_order" && !isFortranOrder) {
    if (text.take("False"))
      isFortranOrder = false;
    else if (text.take("True"))
      isFortranOrder = true;
    return isFortranOrder ? "" : "fortran_order is neither True nor False";
  }
  if (key == "shape" && !shape) {
    shape = text.takeShape();
    return shape ? "" : "its shape is malformed";
  }
  return "its header has the key " + inQuotes(key) + " twice, or may not have it";
}

std::string HeaderValues::parse(HeaderText text) {
  const char *malformed = "its header is not a Python dictionary";
  if (!text.take("{"))
    return malformed;
  while (!text.take("}")) {
    std::optional<std::string_view> key = text.takeString();
    if (!key || !text.take(":"))
      return malformed;
    if (std::string error = parseValue(*key, text); !error.empty())
      return error;
    if (!text.take(",") && !text.startsWith("}"))
      return malformed;
  }
  if (!text.atEnd())
    return malformed;
  return descr && isFortranOrder && shape ? "" : "its header needs descr, fortran_order and shape";
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

std::string ejk::wrongDataSize(const HostTensor &tensor, uint64_t needed, uint64_t there) {
  return tensor.describe() + " takes " + std::to_string(needed) + " bytes, but there are " +
         std::to_string(there);
}

Result<NpyLayout> ejk::npyLayout(std::string_view prefix) {
  if (prefix.size() < npyPrefix || prefix.substr(0, magic.size()) != magic)
    return invalid("it does not start with \\x93NUMPY, or is truncated");
  int major = static_cast<unsigned char>(prefix[6]);
  if (major < 1 || major > 3)
    return invalid("unknown version " + std::to_string(major));
  size_t lengthBytes = major == 1 ? 2 : 4;
  uint32_t headerSize = 0;
  std::memcpy(&headerSize, prefix.data() + 8, lengthBytes);
  if (headerSize > maxHeaderSize)
    return invalid("its header claims " + std::to_string(headerSize) + " bytes, more than " +
                   std::to_string(maxHeaderSize));
  return NpyLayout{8 + lengthBytes, headerSize};
}

Result<HostTensor> ejk::parseNpyHeader(std::string_view header, std::optional<uint64_t> dataSize) {
  HeaderValues values;
  if (std::string error = values.parse(HeaderText(header)); !error.empty())
    return invalid(error);
  std::string_view type = *values.descr;
  std::optional<DataType> dtype = typeOf(type);
  if (!dtype)
    return invalid(
        "element type " + inQuotes(type) + " is none of <f2, <f4, <f8, <i4, <i8" +
        (type == "|V2" || type == "<V2" ? " (store bfloat16 in a safetensors file)" : ""));
  if (*values.isFortranOrder)
    return invalid("it is in Fortran order; save numpy.ascontiguousarray(x)");
  HostTensor tensor;
  tensor.dtype = *dtype;
  tensor.shape = std::move(*values.shape);
  Result<int64_t> size = tensorBytes(tensor.dtype, tensor.shape);
  if (!size)
    return invalid(size.error().message);
  if (dataSize && uint64_t(*size) != *dataSize)
    return invalid(wrongDataSize(tensor, uint64_t(*size), *dataSize));
  return tensor;
}

Result<HostTensor> ejk::parseNpy(std::string_view bytes) {
  Result<NpyLayout> layout = npyLayout(bytes.substr(0, npyPrefix));
  if (!layout)
    return layout.error();
  bytes.remove_prefix(layout->headerOffset);
  if (layout->headerSize > bytes.size())
    return invalid("its header is truncated");
  std::string_view header = bytes.substr(0, layout->headerSize);
  bytes.remove_prefix(layout->headerSize);
  Result<HostTensor> tensor = parseNpyHeader(header, bytes.size());
  if (tensor)
    tensor->data.assign(bytes.begin(), bytes.end());
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
