//===- StridedInputs.cpp - inputs of entries whose rows lie apart ---------===//
#include "lowering/host/StridedInputs.h"
#include "lowering/kernels/RowStrides.h"

using namespace ejk;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kKey = "row_stride";

std::string ejk::rowStrideSymbol(llvm::StringRef name) { return (kKey + "." + name).str(); }

void ejk::keepRowStridesOf(json::Array &inputs, const json::Array &others) {
  for (size_t i = 0; i < std::min(inputs.size(), others.size()); ++i)
    if (!others[i].getAsObject()->get(kKey))
      inputs[i].getAsObject()->erase(kKey);
}

/// The number of elements of a row: of the dimensions after the one that counts rows.
static json::Value rowSize(const json::Array &shape) {
  json::Value size = shape[kRowDim + 1];
  for (size_t d = kRowDim + 2; d < shape.size(); ++d)
    size = json::Array{"*", std::move(size), shape[d]};
  return size;
}

static void replace(json::Value &value, llvm::StringRef symbol, const json::Value &size) {
  if (value.getAsString() == symbol)
    value = size;
  else if (json::Array *list = value.getAsArray())
    for (json::Value &each : *list)
      replace(each, symbol, size);
  else if (json::Object *object = value.getAsObject())
    for (auto &[key, each] : *object)
      replace(each, symbol, size);
}

void ejk::replaceRowStrides(json::Object &entry) {
  for (const json::Value &value : *entry.getArray("inputs")) {
    const json::Object &input = *value.getAsObject();
    const json::Array *shape = input.getArray("shape");
    if (input.get(kKey) || !shape || shape->size() <= kRowDim + 1)
      continue;
    std::string symbol = rowStrideSymbol(*input.getString("name"));
    json::Value size = rowSize(*shape);
    for (const char *key : {"variants", "launches"})
      if (json::Value *part = entry.get(key))
        replace(*part, symbol, size);
  }
}
