//===- DataType.h - element types of tensors --------------------*- C++ -*-===//

#ifndef EJK_RUNTIME_PACKAGE_DATATYPE_H
#define EJK_RUNTIME_PACKAGE_DATATYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace ejk {

enum class DataType : uint8_t { F32, F16, BF16, F64, I32, I64 };

/// The manifest's spelling: "f32", "bf16", ...
std::string_view dataTypeName(DataType type);

/// The inverse of dataTypeName.
std::optional<DataType> parseDataType(std::string_view name);

inline int64_t dataTypeSize(DataType type) {
  switch (type) {
  case DataType::F16:
  case DataType::BF16:
    return 2;
  case DataType::F32:
  case DataType::I32:
    return 4;
  case DataType::F64:
  case DataType::I64:
    return 8;
  }
  return 0;
}

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_DATATYPE_H
