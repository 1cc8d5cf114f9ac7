//===- DataType.cpp - element types of tensors ----------------------------===//

#include "DataType.h"

#include <iterator>

using namespace ejk;

// In the enumeration's order.
static constexpr std::string_view names[] = {"f32", "f16", "bf16", "f64", "i32", "i64"};

std::string_view ejk::dataTypeName(DataType type) { return names[static_cast<int>(type)]; }

std::optional<DataType> ejk::parseDataType(std::string_view name) {
  for (int i = 0; i < int(std::size(names)); ++i)
    if (names[i] == name)
      return static_cast<DataType>(i);
  return std::nullopt;
}
