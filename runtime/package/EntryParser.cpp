//===- EntryParser.cpp - an entry of a manifest ---------------------------===//

#include "ManifestParser.h"

#include "Names.h"

#include "ejk/package_format.h"

#include <algorithm>
#include <limits>

using namespace ejk;

static std::string shapeText(const std::vector<Dim> &dims) {
  std::string text = "[";
  for (const Dim &dim : dims)
    text += (text.size() > 1 ? ", " : "") + dim.expr.text();
  return text + "]";
}

bool ManifestParser::entry(const json &object, const std::string &where, const Manifest &manifest,
                           Entry &entry) {
  const json *inputs, *outputs, *list;
  if (!name(object, "name", where, entry.name) ||
      (object.contains("vjp_of") && !name(object, "vjp_of", where, entry.derivativeOf)) ||
      (object.contains("fwd_of") && !name(object, "fwd_of", where, entry.forwardOf)) ||
      !array(object, "inputs", where, EJK_MAX_TENSORS, inputs) ||
      !array(object, "outputs", where, EJK_MAX_TENSORS, outputs) ||
      !inputShapes(*inputs, where, entry))
    return false;
  for (size_t i = 0; i < outputs->size(); ++i)
    if (!output((*outputs)[i], at(where, "outputs", i), entry))
      return false;
  if (object.contains("constraints")) {
    if (!array(object, "constraints", where, 256, list))
      return false;
    for (size_t i = 0; i < list->size(); ++i)
      if (!constraint((*list)[i], at(where, "constraints", i), entry))
        return false;
  }
  return variants(object, where, manifest, entry);
}

bool ManifestParser::constraint(const json &object, const std::string &where, Entry &entry) {
  Constraint constraint;
  const json *expr = member(object, "expr", where);
  if (!expr || !expression(*expr, dot(where, "expr"), entry, constraint.expr) ||
      !integerMember(object, "equals", where, std::numeric_limits<int64_t>::min(),
                     std::numeric_limits<int64_t>::max(), constraint.equals) ||
      !text(object, "message", where, constraint.message))
    return false;
  entry.constraints.push_back(std::move(constraint));
  return true;
}

bool ManifestParser::tensor(const json &object, const std::string &where, TensorSpec &spec) {
  std::string dtype;
  if (!name(object, "name", where, spec.name) || !string(object, "dtype", where, dtype) ||
      !integerMember(object, "align", where, 1, 1 << 20, spec.align))
    return false;
  std::optional<DataType> type = parseDataType(dtype);
  if (!type)
    return fail(where, "unknown element type " + inQuotes(dtype));
  spec.dtype = *type;
  if (object.contains("slots")) {
    if (!object["slots"].is_boolean())
      return fail(dot(where, "slots"), "expected true or false");
    spec.hasSlots = object["slots"].get<bool>();
  }
  if ((spec.align & (spec.align - 1)) != 0)
    return fail(where, "the alignment is not a power of two");
  if (spec.align < dataTypeSize(spec.dtype))
    return fail(dot(where, "align"), "an element of " + dtype + " needs at least " +
                                         std::to_string(dataTypeSize(spec.dtype)));
  return !object.contains("role") || name(object, "role", where, spec.role);
}

// Tools find tensors by name and write one file for each.
bool ManifestParser::unique(const std::vector<TensorSpec> &specs, const std::string &where,
                            const char *what) {
  for (size_t i = 0; i + 1 < specs.size(); ++i)
    if (specs[i].name == specs.back().name)
      return fail(where, std::string("a second ") + what + " named '" + specs[i].name + "'");
  return true;
}

// Turns a dimension that is the first to name a symbol into its definition.
// Leaves a dimension that defines nothing as it is.
void ManifestParser::bindingDim(const json &dim, int input, int position, Entry &entry,
                                Dim &result) {
  const json *symbol = &dim, *constant = nullptr;
  Dim::Kind kind = Dim::Kind::Bind;
  // The library's own comparison with a text allocates, and must not throw.
  const std::string *op = dim.is_array() && dim.size() == 3 && dim[0].is_string()
                              ? &dim[0].get_ref<const std::string &>()
                              : nullptr;
  if (op && (*op == "+" || *op == "*")) {
    kind = *op == "+" ? Dim::Kind::BindPlus : Dim::Kind::BindTimes;
    bool symbolFirst = dim[1].is_string();
    symbol = &dim[symbolFirst ? 1 : 2];
    constant = &dim[symbolFirst ? 2 : 1];
  }
  if (!symbol->is_string())
    return;
  const std::string &name = symbol->get_ref<const std::string &>();
  if (nameProblem(name) || entry.symbols.size() >= EJK_MAX_SYMBOLS ||
      (hasVariants() && name.rfind(deviceFactPrefix, 0) == 0) ||
      std::find(entry.symbols.begin(), entry.symbols.end(), name) != entry.symbols.end())
    return;
  if (constant) {
    // A factor of zero determines nothing, and sizes past 2^31 are no offsets.
    int64_t low = kind == Dim::Kind::BindTimes ? 1 : -(int64_t(1) << 31);
    std::string unbound = why;
    if (!integer(*constant, "", low, int64_t(1) << 31, result.constant)) {
      why = unbound;
      return;
    }
  }
  result.kind = kind;
  result.symbol = int(entry.symbols.size());
  entry.symbols.push_back(name);
  entry.symbolSources.emplace_back(input, position);
}

// The symbol is a new one: nothing else decides it, and the input's rows nothing else.
bool ManifestParser::rowStride(const json &object, const std::string &where, int input, Entry &entry,
                               TensorSpec &spec) {
  std::string symbol;
  if (!name(object, "row_stride", where, symbol))
    return false;
  if (spec.dims.size() < leastRowRank || spec.hasSlots)
    return fail(dot(where, "row_stride"), "has a tensor of three dimensions or more that is no pool");
  if (entry.symbols.size() >= EJK_MAX_SYMBOLS || symbol.rfind(deviceFactPrefix, 0) == 0 ||
      std::find(entry.symbols.begin(), entry.symbols.end(), symbol) != entry.symbols.end())
    return fail(dot(where, "row_stride"), "expected a symbol that nothing else determines");
  spec.rowStride = int(entry.symbols.size());
  entry.symbols.push_back(std::move(symbol));
  entry.symbolSources.emplace_back(input, -1);
  return true;
}

bool ManifestParser::inputShapes(const json &inputs, const std::string &where, Entry &entry) {
  std::vector<const json *> shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string here = at(where, "inputs", i);
    TensorSpec spec;
    if (!tensor(inputs[i], here, spec) || !array(inputs[i], "shape", here, EJK_MAX_RANK, shapes[i]))
      return false;
    spec.dims.resize(shapes[i]->size());
    for (size_t d = 0; d < spec.dims.size(); ++d)
      bindingDim((*shapes[i])[d], int(i), int(d), entry, spec.dims[d]);
    if (inputs[i].contains("row_stride") && !rowStride(inputs[i], here, int(i), entry, spec))
      return false;
    entry.inputs.push_back(std::move(spec));
    if (!unique(entry.inputs, here, "input"))
      return false;
  }
  // Only now are all symbols known, so that a formula may use a later one.
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string here = at(where, "inputs", i);
    TensorSpec &spec = entry.inputs[i];
    for (size_t d = 0; d < spec.dims.size(); ++d)
      if (!expression((*shapes[i])[d], at(here, "shape", d), entry, spec.dims[d].expr))
        return false;
    spec.shapeText = shapeText(spec.dims);
    if (spec.hasSlots && spec.dims.empty())
      return fail(dot(here, "slots"), "a tensor of no dimensions has none");
    bool isOffsets = spec.role == cuSeqlensRole;
    if (!isOffsets && spec.role != stateIndexRole)
      continue;
    bool isVector = spec.dims.size() == 1 || (!isOffsets && spec.dims.size() == 2);
    if (!isVector || (spec.dtype != DataType::I32 && spec.dtype != DataType::I64))
      return fail(here, spec.role + (isOffsets ? " must be a vector of i32 or i64"
                                               : " must be a vector or a matrix of i32 or i64"));
    const char *key = isOffsets ? "total" : "states";
    const json *bound = member(inputs[i], key, here);
    if (!bound || !expression(*bound, dot(here, key), entry, isOffsets ? spec.total : spec.states))
      return false;
  }
  return true;
}

bool ManifestParser::output(const json &object, const std::string &where, Entry &entry) {
  TensorSpec spec;
  const json *shape;
  if (!tensor(object, where, spec) || !array(object, "shape", where, EJK_MAX_RANK, shape))
    return false;
  spec.dims.resize(shape->size());
  for (size_t d = 0; d < shape->size(); ++d)
    if (!expression((*shape)[d], at(where, "shape", d), entry, spec.dims[d].expr))
      return false;
  spec.shapeText = shapeText(spec.dims);
  if (object.contains("may_alias") && !object["may_alias"].is_null()) {
    int64_t index;
    if (!integerMember(object, "may_alias", where, 0, int64_t(entry.inputs.size()) - 1, index))
      return false;
    spec.mayAlias = int(index);
  }
  if (object.contains("in_place")) {
    if (!object["in_place"].is_boolean())
      return fail(dot(where, "in_place"), "expected true or false");
    spec.inPlace = object["in_place"].get<bool>();
    if (spec.inPlace && spec.mayAlias < 0)
      return fail(dot(where, "in_place"), "needs 'may_alias': the input that is replaced");
  }
  // An output in place of a pool has the pool's slots.
  spec.hasSlots = spec.inPlace && entry.inputs[size_t(spec.mayAlias)].hasSlots;
  entry.outputs.push_back(std::move(spec));
  return unique(entry.outputs, where, "output");
}
