//===- Shapes.cpp - types, shapes and symbols of a call's tensors ---------===//

#include "Operands.h"

using namespace ejk;

DLDataType ejk::toDLDataType(DataType type) {
  uint8_t bits = uint8_t(8 * dataTypeSize(type));
  switch (type) {
  case DataType::BF16:
    return {kDLBfloat, bits, 1};
  case DataType::I32:
  case DataType::I64:
    return {kDLInt, bits, 1};
  default:
    return {kDLFloat, bits, 1};
  }
}

static bool sameType(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::string ejk::describeDataType(DLDataType type) {
  for (DataType known :
       {DataType::F32, DataType::F16, DataType::BF16, DataType::F64, DataType::I32, DataType::I64})
    if (sameType(type, toDLDataType(known)))
      return std::string(dataTypeName(known));
  return "DLPack type (code " + std::to_string(type.code) + ", " + std::to_string(type.bits) +
         " bits, " + std::to_string(type.lanes) + " lanes)";
}

std::string ejk::explainSymbols(const Entry &entry, const Expr &expr, const Symbols &symbols) {
  std::string text;
  for (int symbol : expr.usedSymbols()) {
    if (size_t fact = size_t(symbol) - entry.symbols.size(); fact < EJK_NUM_DEVICE_FACTS) {
      text += (text.empty() ? "" : ", ") + std::string(deviceFactNames[fact]) + " = " +
              std::to_string(symbols.values[symbol]);
      continue;
    }
    const std::string &source = entry.inputs[entry.symbolSources[symbol].first].name;
    text += (text.empty() ? "'" : ", '") + source + "' gave " + entry.symbols[symbol] + " = " +
            std::to_string(symbols.values[symbol]);
  }
  return text;
}

namespace {
/// One operand while it is checked, with the cold paths that describe it.
struct Operand {
  const char *kind;
  const TensorSpec &spec;
  const DLTensor *tensor;

  std::string name() const { return std::string(kind) + " '" + spec.name + "'"; }

  [[gnu::cold, gnu::noinline]] ejk_error *fail(const std::string &what) const {
    return makeError(ErrorCode::InvalidTensor, name() + ": " + what);
  }

  [[gnu::cold, gnu::noinline]] ejk_error *failDim(size_t d, const std::string &what) const {
    const Expr &expr = spec.dims[d].expr;
    std::string which = "dimension " + std::to_string(d);
    if (!expr.usedSymbols().empty())
      which += " (" + expr.text() + ")";
    return fail(which + " is " + std::to_string(tensor->shape[d]) + ", " + what);
  }

  // All that is the same for inputs and outputs, and needs no symbols.
  ejk_error *checkTypeAndRank() const {
    if (!tensor)
      return fail("the tensor is NULL");
    if (!sameType(tensor->dtype, toDLDataType(spec.dtype)))
      return fail("element type is " + describeDataType(tensor->dtype) + ", expected " +
                  std::string(dataTypeName(spec.dtype)));
    if (tensor->ndim != int(spec.dims.size()))
      return fail("rank is " + std::to_string(tensor->ndim) + ", expected " +
                  std::to_string(spec.dims.size()) + " " + spec.shapeText);
    if (tensor->ndim > 0 && !tensor->shape)
      return fail("the shape is NULL");
    for (int d = 0; d < tensor->ndim; ++d)
      if (tensor->shape[d] < 0)
        return failDim(d, "which is negative");
    return nullptr;
  }

  ejk_error *bind(Symbols &symbols) const {
    for (size_t d = 0; d < spec.dims.size(); ++d) {
      const Dim &dim = spec.dims[d];
      int64_t size = tensor->shape[d];
      switch (dim.kind) {
      case Dim::Kind::Check:
        continue;
      case Dim::Kind::Bind:
        break;
      case Dim::Kind::BindPlus:
        if (__builtin_sub_overflow(size, dim.constant, &size) || size < 0)
          return failDim(d, "expected at least " + std::to_string(dim.constant));
        break;
      case Dim::Kind::BindTimes:
        if (size % dim.constant != 0)
          return failDim(d, "expected a multiple of " + std::to_string(dim.constant));
        size /= dim.constant;
        break;
      }
      symbols.values[dim.symbol] = size;
    }
    if (spec.rowStride >= 0)
      symbols.values[spec.rowStride] = rowStride(*tensor);
    return nullptr;
  }

  ejk_error *checkDims(const Entry &entry, const Symbols &symbols) const {
    for (size_t d = 0; d < spec.dims.size(); ++d) {
      const Dim &dim = spec.dims[d];
      if (dim.kind != Dim::Kind::Check)
        continue;
      int64_t expected;
      if (const char *why = dim.expr.evaluate(symbols.values, expected))
        return failDim(d, "but its formula has no value: " + std::string(why) + " (" +
                              explainSymbols(entry, dim.expr, symbols) + ")");
      if (tensor->shape[d] == expected)
        continue;
      std::string given = explainSymbols(entry, dim.expr, symbols);
      if (given.empty())
        return failDim(d, "expected " + std::to_string(expected));
      // A bare symbol's value is the expectation.
      if (dim.expr.text() == entry.symbols[dim.expr.usedSymbols()[0]])
        return failDim(d, "but " + given);
      return failDim(d, "expected " + std::to_string(expected) + ", since " + given);
    }
    return nullptr;
  }
};
} // namespace

[[gnu::cold, gnu::noinline]] static ejk_error *countError(const Entry &entry, const char *kind,
                                                          const std::vector<TensorSpec> &specs,
                                                          size_t given) {
  std::string names;
  for (const TensorSpec &spec : specs)
    names += (names.empty() ? "" : ", ") + spec.name;
  return makeError(ErrorCode::InvalidTensor,
                   "entry '" + entry.name + "' takes " + std::to_string(specs.size()) + " " + kind +
                       "s (" + names + "), but " + std::to_string(given) + " were given");
}

static ejk_error *checkCount(const Entry &entry, const char *kind,
                             const std::vector<TensorSpec> &specs, TensorList list) {
  if (list.count != specs.size())
    return countError(entry, kind, specs, list.count);
  if (list.count != 0 && !list.tensors)
    return makeError(ErrorCode::InvalidArgument, std::string("the array of ") + kind + "s is NULL");
  return nullptr;
}

ejk_error *ejk::bindInputs(const Entry &entry, TensorList inputs, Symbols &symbols) {
  if (ejk_error *error = checkCount(entry, "input", entry.inputs, inputs))
    return error;
  // Symbols first, in the order in which the manifest found their sources.
  for (size_t i = 0; i < inputs.count; ++i) {
    Operand operand{"input", entry.inputs[i], inputs.tensors[i]};
    if (ejk_error *error = operand.checkTypeAndRank())
      return error;
    if (ejk_error *error = operand.bind(symbols))
      return error;
  }
  for (size_t i = 0; i < inputs.count; ++i) {
    Operand operand{"input", entry.inputs[i], inputs.tensors[i]};
    if (ejk_error *error = operand.checkDims(entry, symbols))
      return error;
  }
  for (const Constraint &constraint : entry.constraints) {
    int64_t value;
    const char *why = constraint.expr.evaluate(symbols.values, value);
    if (!why && value == constraint.equals)
      continue;
    std::string given = explainSymbols(entry, constraint.expr, symbols);
    return makeError(ErrorCode::InvalidTensor,
                     constraint.message + (given.empty() ? "" : ", but " + given));
  }
  return nullptr;
}

ejk_error *ejk::checkOutputs(const Entry &entry, TensorList outputs, const Symbols &symbols) {
  if (ejk_error *error = checkCount(entry, "output", entry.outputs, outputs))
    return error;
  for (size_t i = 0; i < outputs.count; ++i) {
    Operand operand{"output", entry.outputs[i], outputs.tensors[i]};
    if (ejk_error *error = operand.checkTypeAndRank())
      return error;
    if (ejk_error *error = operand.checkDims(entry, symbols))
      return error;
  }
  return nullptr;
}

// Where a caller's offsets lie is checked, but not by the compiler: they are
// read as bytes.
template <typename T>
static ejk_error *checkOffsets(const Operand &operand, const char *data, int64_t count,
                               int64_t total, const std::string &totalText) {
  T before = 0;
  for (int64_t i = 0; i < count; ++i) {
    T offset;
    std::memcpy(&offset, data + i * int64_t(sizeof(T)), sizeof(T));
    if (i == 0 && offset != 0)
      return operand.fail("entry 0 is " + std::to_string(offset) + ", expected 0");
    if (offset < before)
      return operand.fail("entry " + std::to_string(i) + " is " + std::to_string(offset) +
                          ", less than the entry before it, which is " + std::to_string(before) +
                          "; the offsets must not decrease");
    before = offset;
  }
  if (before > total)
    return operand.fail("the last entry is " + std::to_string(before) + ", expected at most " +
                        totalText + " = " + std::to_string(total));
  return nullptr;
}

ejk_error *ejk::checkSequenceOffsets(const Entry &entry, TensorList inputs,
                                     const Symbols &symbols) {
  for (size_t i = 0; i < inputs.count; ++i) {
    Operand operand{"input", entry.inputs[i], inputs.tensors[i]};
    const DLTensor *tensor = operand.tensor;
    int32_t device = deviceType(*tensor);
    if (operand.spec.role != cuSeqlensRole || (device != kDLCPU && device != kDLCUDAHost))
      continue;
    int64_t total;
    const Expr &expr = operand.spec.total;
    if (const char *why = expr.evaluate(symbols.values, total))
      return operand.fail("its last entry's formula has no value: " + std::string(why));
    const char *data = static_cast<const char *>(tensor->data) + tensor->byte_offset;
    auto check =
        operand.spec.dtype == DataType::I32 ? checkOffsets<int32_t> : checkOffsets<int64_t>;
    if (ejk_error *error = check(operand, data, tensor->shape[0], total, expr.text()))
      return error;
  }
  return nullptr;
}
