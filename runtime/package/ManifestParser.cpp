//===- ManifestParser.cpp - from JSON to a validated manifest -------------===//
//
// Nothing in the text is trusted: every type, index and bound is checked here,
// once, so that a launch need not.
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"

#include "JsonText.h"
#include "Names.h"

#include "ejk/package_format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace ejk;
using nlohmann::json;

const Entry *Manifest::findEntry(std::string_view name) const {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

namespace {

/// Each parse function returns false once `why` says where and what.
class Parser {
public:
  Parser(uint64_t payloadSize, uint32_t formatVersion)
      : payloadSize(payloadSize), formatVersion(formatVersion) {}

  bool parse(const json &root, Manifest &manifest);
  std::string why;

private:
  bool fail(const std::string &where, const std::string &what) {
    why = where + ": " + what;
    return false;
  }

  // Typed access to one member. `where` names the object.
  const json *member(const json &object, const char *key, const std::string &where);
  bool string(const json &object, const char *key, const std::string &where, std::string &value);
  /// A string that people may be shown.
  bool text(const json &object, const char *key, const std::string &where, std::string &value);
  /// A string that names something.
  bool name(const json &object, const char *key, const std::string &where, std::string &value);
  bool integer(const json &value, const std::string &where, int64_t low, int64_t high,
               int64_t &result);
  bool integerMember(const json &object, const char *key, const std::string &where, int64_t low,
                     int64_t high, int64_t &result);
  bool array(const json &object, const char *key, const std::string &where, size_t limit,
             const json *&value);
  bool expression(const json &value, const std::string &where, const Entry &entry, Expr &expr);
  bool expressions(const json &list, const std::string &where, const char *key, const Entry &entry,
                   std::vector<Expr> &exprs);

  bool architecture(const json &root, Manifest &manifest);
  bool image(const json &object, const std::string &where, Image &image);
  bool entry(const json &object, const std::string &where, Entry &entry);
  bool tensor(const json &object, const std::string &where, TensorSpec &spec);
  bool unique(const std::vector<TensorSpec> &specs, const std::string &where, const char *what);
  bool inputShapes(const json &inputs, const std::string &where, Entry &entry);
  void bindingDim(const json &dim, int input, int position, Entry &entry, Dim &result);
  bool output(const json &object, const std::string &where, Entry &entry);
  bool launch(const json &object, const std::string &where, const Entry &entry, Launch &launch);
  bool argument(const json &object, const std::string &where, const Entry &entry, Launch &launch);
  bool buffer(const std::string &key, const json &value, const std::string &where,
              const Entry &entry, Argument &argument);
  bool tensorMap(const json &object, const std::string &where, const Entry &entry, TensorMap &map);
  bool mapSizes(const json &object, const std::string &where, const Entry &entry, TensorMap &map);
  bool mapMatrix(const json &object, const std::string &where, const Entry &entry, TensorMap &map);

  uint64_t payloadSize;
  uint32_t formatVersion;
};

} // namespace

static std::string at(const std::string &where, const char *key, size_t i) {
  return where + (where.empty() ? "" : ".") + key + "[" + std::to_string(i) + "]";
}

static std::string dot(const std::string &where, const char *key) {
  return where + (where.empty() ? "" : ".") + key;
}

static std::string counted(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

static std::string shapeText(const std::vector<Dim> &dims) {
  std::string text = "[";
  for (const Dim &dim : dims)
    text += (text.size() > 1 ? ", " : "") + dim.expr.text();
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Typed access
//===----------------------------------------------------------------------===//

const json *Parser::member(const json &object, const char *key, const std::string &where) {
  if (!object.is_object()) {
    fail(where.empty() ? "the top level" : where, "expected an object");
    return nullptr;
  }
  auto it = object.find(key);
  if (it == object.end()) {
    fail(dot(where, key), "is missing");
    return nullptr;
  }
  return &*it;
}

bool Parser::string(const json &object, const char *key, const std::string &where,
                    std::string &value) {
  const json *found = member(object, key, where);
  if (!found)
    return false;
  if (!found->is_string())
    return fail(dot(where, key), "expected a string");
  value = found->get_ref<const std::string &>();
  return true;
}

bool Parser::text(const json &object, const char *key, const std::string &where,
                  std::string &value) {
  if (!string(object, key, where, value))
    return false;
  const char *problem = textProblem(value);
  return !problem || fail(dot(where, key), inQuotes(value) + " is not allowed: " + problem);
}

bool Parser::name(const json &object, const char *key, const std::string &where,
                  std::string &value) {
  if (!string(object, key, where, value))
    return false;
  const char *problem = nameProblem(value);
  return !problem || fail(dot(where, key), inQuotes(value) + " is not a name: " + problem);
}

bool Parser::integer(const json &value, const std::string &where, int64_t low, int64_t high,
                     int64_t &result) {
  bool fits = value.is_number_integer() &&
              !(value.is_number_unsigned() &&
                value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()));
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
    return fail(where,
                "expected an integer from " + std::to_string(low) + " to " + std::to_string(high));
  result = value.get<int64_t>();
  return true;
}

bool Parser::integerMember(const json &object, const char *key, const std::string &where,
                           int64_t low, int64_t high, int64_t &result) {
  const json *found = member(object, key, where);
  return found && integer(*found, dot(where, key), low, high, result);
}

bool Parser::array(const json &object, const char *key, const std::string &where, size_t limit,
                   const json *&value) {
  value = member(object, key, where);
  if (!value)
    return false;
  if (!value->is_array())
    return fail(dot(where, key), "expected an array");
  if (value->size() > limit)
    return fail(dot(where, key), "has " + std::to_string(value->size()) +
                                     " elements, more than the limit of " + std::to_string(limit));
  return true;
}

bool Parser::expression(const json &value, const std::string &where, const Entry &entry,
                        Expr &expr) {
  Result<Expr> parsed = Expr::parse(value, entry.symbols);
  if (!parsed)
    return fail(where, parsed.error().message);
  expr = std::move(*parsed);
  return true;
}

bool Parser::expressions(const json &list, const std::string &where, const char *key,
                         const Entry &entry, std::vector<Expr> &exprs) {
  exprs.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    if (!expression(list[i], at(where, key, i), entry, exprs[i]))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// The package as a whole
//===----------------------------------------------------------------------===//

bool Parser::architecture(const json &root, Manifest &manifest) {
  if (!string(root, "arch", "", manifest.arch))
    return false;
  const std::string &arch = manifest.arch;
  // sm_90, or sm_90a: the letter says that no later architecture runs it.
  size_t digits = arch.rfind("sm_", 0) == 0 ? 3 : std::string::npos;
  size_t end = digits == std::string::npos ? digits : arch.find_first_not_of("0123456789", digits);
  bool letter =
      end != std::string::npos && end + 1 == arch.size() && (arch[end] == 'a' || arch[end] == 'f');
  size_t count = (letter ? arch.size() - 1 : arch.size()) - 3;
  if (digits == std::string::npos || (end != std::string::npos && !letter) || count < 2 ||
      count > 4)
    return fail("arch", inQuotes(arch) + " is not of the form sm_90");
  manifest.archNumber = std::stoi(arch.substr(3, count));
  auto it = root.find("arch_specific");
  if (it != root.end() && !it->is_boolean())
    return fail("arch_specific", "expected a boolean");
  manifest.archSpecific = letter || (it != root.end() && it->get<bool>());
  return true;
}

bool Parser::parse(const json &root, Manifest &manifest) {
  std::string format;
  if (!string(root, "format", "", format))
    return false;
  if (format != EJK_PACKAGE_FORMAT_NAME)
    return fail("format", "is " + inQuotes(format) + ", expected '" EJK_PACKAGE_FORMAT_NAME "'");
  int64_t version;
  const json *images, *entries;
  if (!integerMember(root, "version", "", formatVersion, formatVersion, version) ||
      !text(root, "producer", "", manifest.producer) || !architecture(root, manifest) ||
      !array(root, "images", "", 16, images) || !array(root, "entries", "", 4096, entries))
    return false;
  if (images->empty())
    return fail("images", "is empty");
  uint64_t end = 0;
  for (size_t i = 0; i < images->size(); ++i) {
    std::string where = at("", "images", i);
    Image &parsed = manifest.images.emplace_back();
    if (!image((*images)[i], where, parsed))
      return false;
    // Images that share bytes would be copied more often than they are stored.
    if (parsed.offset != end)
      return fail(where, "starts at byte " + std::to_string(parsed.offset) +
                             " of the payload, expected " + std::to_string(end) +
                             ", where the one before it ends");
    end = parsed.offset + parsed.size;
  }
  if (end != payloadSize)
    return fail("images", "end at byte " + std::to_string(end) + " of the payload, which has " +
                              std::to_string(payloadSize) + " bytes");
  if (entries->empty())
    return fail("entries", "is empty");
  manifest.entries.reserve(entries->size());
  for (size_t i = 0; i < entries->size(); ++i) {
    Entry parsed;
    std::string where = at("", "entries", i);
    if (!entry((*entries)[i], where, parsed))
      return false;
    if (manifest.findEntry(parsed.name))
      return fail(where, "a second entry named '" + parsed.name + "'");
    manifest.entries.push_back(std::move(parsed));
  }
  return true;
}

bool Parser::image(const json &object, const std::string &where, Image &image) {
  std::string kind;
  int64_t offset, size, max = std::numeric_limits<int64_t>::max();
  if (!string(object, "kind", where, kind) ||
      !integerMember(object, "offset", where, 0, max, offset) ||
      !integerMember(object, "size", where, 1, max, size))
    return false;
  if (kind != "ptx" && kind != "cubin")
    return fail(where, "unknown image kind " + inQuotes(kind));
  if (uint64_t(offset) > payloadSize || uint64_t(size) > payloadSize - uint64_t(offset))
    return fail(where, "bytes " + std::to_string(offset) + " to +" + std::to_string(size) +
                           " lie outside the " + std::to_string(payloadSize) +
                           " bytes of the payload");
  image = {kind == "ptx" ? Image::Kind::Ptx : Image::Kind::Cubin, uint64_t(offset), uint64_t(size)};
  return true;
}

//===----------------------------------------------------------------------===//
// One entry
//===----------------------------------------------------------------------===//

bool Parser::entry(const json &object, const std::string &where, Entry &entry) {
  const json *inputs, *outputs, *launches;
  if (!name(object, "name", where, entry.name) ||
      !array(object, "inputs", where, EJK_MAX_TENSORS, inputs) ||
      !array(object, "outputs", where, EJK_MAX_TENSORS, outputs) ||
      !array(object, "launches", where, EJK_MAX_LAUNCHES, launches) ||
      !inputShapes(*inputs, where, entry))
    return false;
  for (size_t i = 0; i < outputs->size(); ++i)
    if (!output((*outputs)[i], at(where, "outputs", i), entry))
      return false;

  const json *list = nullptr;
  if (object.contains("constraints")) {
    if (!array(object, "constraints", where, 256, list))
      return false;
    for (size_t i = 0; i < list->size(); ++i) {
      Constraint constraint;
      std::string here = at(where, "constraints", i);
      const json *expr = member((*list)[i], "expr", here);
      if (!expr || !expression(*expr, dot(here, "expr"), entry, constraint.expr) ||
          !integerMember((*list)[i], "equals", here, std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<int64_t>::max(), constraint.equals) ||
          !text((*list)[i], "message", here, constraint.message))
        return false;
      entry.constraints.push_back(std::move(constraint));
    }
  }
  if (object.contains("workspace")) {
    if (!array(object, "workspace", where, EJK_MAX_WORKSPACES, list))
      return false;
    for (size_t i = 0; i < list->size(); ++i) {
      Workspace workspace;
      std::string here = at(where, "workspace", i);
      const json *bytes = member((*list)[i], "bytes", here);
      if (!bytes || !name((*list)[i], "name", here, workspace.name) ||
          !expression(*bytes, dot(here, "bytes"), entry, workspace.bytes))
        return false;
      entry.workspaces.push_back(std::move(workspace));
    }
  }
  size_t numArguments = 0, numTensorMaps = 0;
  for (size_t i = 0; i < launches->size(); ++i) {
    entry.launches.emplace_back();
    if (!launch((*launches)[i], at(where, "launches", i), entry, entry.launches.back()))
      return false;
    numArguments += entry.launches.back().args.size();
    numTensorMaps += entry.launches.back().tensorMaps.size();
  }
  if (numArguments > EJK_MAX_ARGUMENTS)
    return fail(dot(where, "launches"), "have too many arguments together");
  if (numTensorMaps > EJK_MAX_TENSOR_MAPS)
    return fail(dot(where, "launches"), "have " + std::to_string(numTensorMaps) +
                                            " tensor maps together, more than the limit of " +
                                            std::to_string(EJK_MAX_TENSOR_MAPS));
  return true;
}

bool Parser::tensor(const json &object, const std::string &where, TensorSpec &spec) {
  std::string dtype;
  if (!name(object, "name", where, spec.name) || !string(object, "dtype", where, dtype) ||
      !integerMember(object, "align", where, 1, 1 << 20, spec.align))
    return false;
  std::optional<DataType> type = parseDataType(dtype);
  if (!type)
    return fail(where, "unknown element type " + inQuotes(dtype));
  spec.dtype = *type;
  if ((spec.align & (spec.align - 1)) != 0)
    return fail(where, "the alignment is not a power of two");
  if (spec.align < dataTypeSize(spec.dtype))
    return fail(dot(where, "align"), "an element of " + dtype + " needs at least " +
                                         std::to_string(dataTypeSize(spec.dtype)));
  return !object.contains("role") || name(object, "role", where, spec.role);
}

// Tools find tensors by name and write one file for each.
bool Parser::unique(const std::vector<TensorSpec> &specs, const std::string &where,
                    const char *what) {
  for (size_t i = 0; i + 1 < specs.size(); ++i)
    if (specs[i].name == specs.back().name)
      return fail(where, std::string("a second ") + what + " named '" + specs[i].name + "'");
  return true;
}

// Turns a dimension that is the first to name a symbol into its definition.
// Leaves a dimension that defines nothing as it is.
void Parser::bindingDim(const json &dim, int input, int position, Entry &entry, Dim &result) {
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

bool Parser::inputShapes(const json &inputs, const std::string &where, Entry &entry) {
  std::vector<const json *> shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string here = at(where, "inputs", i);
    TensorSpec spec;
    if (!tensor(inputs[i], here, spec) || !array(inputs[i], "shape", here, EJK_MAX_RANK, shapes[i]))
      return false;
    spec.dims.resize(shapes[i]->size());
    for (size_t d = 0; d < spec.dims.size(); ++d)
      bindingDim((*shapes[i])[d], int(i), int(d), entry, spec.dims[d]);
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
    if (spec.role != cuSeqlensRole)
      continue;
    if (spec.dims.size() != 1 || (spec.dtype != DataType::I32 && spec.dtype != DataType::I64))
      return fail(here, "cu_seqlens must be a vector of i32 or i64");
    const json *total = member(inputs[i], "total", here);
    if (!total || !expression(*total, dot(here, "total"), entry, spec.total))
      return false;
  }
  return true;
}

bool Parser::output(const json &object, const std::string &where, Entry &entry) {
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
  entry.outputs.push_back(std::move(spec));
  return unique(entry.outputs, where, "output");
}

bool Parser::launch(const json &object, const std::string &where, const Entry &entry,
                    Launch &launch) {
  const json *block, *args;
  int64_t shared, threads = 1;
  if (!name(object, "kernel", where, launch.kernel) || !array(object, "block", where, 3, block) ||
      !integerMember(object, "shared_bytes", where, 0, 1 << 20, shared))
    return false;
  launch.sharedBytes = unsigned(shared);
  if (block->size() != 3)
    return fail(dot(where, "block"), "expected three integers");
  for (size_t i = 0; i < 3; ++i) {
    int64_t size;
    if (!integer((*block)[i], at(where, "block", i), 1, 1024, size))
      return false;
    launch.block[i] = unsigned(size);
    threads *= size;
  }
  if (threads > 1024)
    return fail(dot(where, "block"), "has more than 1024 threads");
  const json *grid = member(object, "grid", where);
  if (!grid || !expression(*grid, dot(where, "grid"), entry, launch.grid) ||
      !array(object, "args", where, EJK_MAX_ARGUMENTS, args))
    return false;
  for (size_t i = 0; i < args->size(); ++i)
    if (!argument((*args)[i], at(where, "args", i), entry, launch))
      return false;
  return true;
}

bool Parser::argument(const json &object, const std::string &where, const Entry &entry,
                      Launch &launch) {
  Argument &argument = launch.args.emplace_back();
  // Version 1 has no tensor maps.
  if (formatVersion > 1 && object.is_object() && object.contains("tensor_map")) {
    const json &mapped = object["tensor_map"];
    std::string here = dot(where, "tensor_map");
    if (!mapped.is_object() || mapped.size() != 1)
      return fail(here, "expected one of {input}, {output}, {workspace}");
    argument.tensorMap = int(launch.tensorMaps.size());
    return buffer(mapped.begin().key(), mapped.begin().value(), here, entry, argument) &&
           tensorMap(object, where, entry, launch.tensorMaps.emplace_back());
  }
  if (!object.is_object() || object.size() != 1)
    return fail(where, "expected one of {input}, {output}, {workspace}, {i64}, "
                       "{tensor_map, dtype, sizes, strides, box}");
  const std::string &key = object.begin().key();
  const json &value = object.begin().value();
  if (key != "i64")
    return buffer(key, value, where, entry, argument);
  argument.kind = Argument::Kind::Integer;
  return expression(value, where, entry, argument.value);
}

bool Parser::buffer(const std::string &key, const json &value, const std::string &where,
                    const Entry &entry, Argument &argument) {
  size_t count;
  if (key == "input") {
    argument.kind = Argument::Kind::Input;
    count = entry.inputs.size();
  } else if (key == "output") {
    argument.kind = Argument::Kind::Output;
    count = entry.outputs.size();
  } else if (key == "workspace") {
    argument.kind = Argument::Kind::Workspace;
    count = entry.workspaces.size();
  } else {
    return fail(where, "unknown kind of argument " + inQuotes(key));
  }
  if (count == 0)
    return fail(where, "the entry has no " + key);
  int64_t index;
  if (!integer(value, where, 0, int64_t(count) - 1, index))
    return false;
  argument.index = int(index);
  return true;
}

bool Parser::tensorMap(const json &object, const std::string &where, const Entry &entry,
                       TensorMap &map) {
  bool isMatrix = formatVersion == 2;
  std::string dtype;
  const json *box;
  if (!string(object, "dtype", where, dtype) ||
      !(isMatrix ? mapMatrix(object, where, entry, map) : mapSizes(object, where, entry, map)) ||
      !array(object, "box", where, EJK_MAX_TENSOR_MAP_RANK, box))
    return false;
  if (object.size() != 5)
    return fail(where, std::string("expected tensor_map, dtype, ") +
                           (isMatrix ? "rows, columns" : "sizes, strides") + " and box alone");
  std::optional<DataType> type = parseDataType(dtype);
  if (type != DataType::F32 && type != DataType::F16 && type != DataType::BF16)
    return fail(dot(where, "dtype"), "a tensor map has no elements of type " + inQuotes(dtype) +
                                         ", expected f32, f16 or bf16");
  map.dtype = *type;
  size_t rank = map.sizes.size();
  if (box->size() != rank)
    return fail(dot(where, "box"), "expected " + counted(rank, "integer") +
                                       ", as many as sizes, but there are " +
                                       std::to_string(box->size()));
  int64_t bytes = dataTypeSize(*type), size = 0;
  for (size_t i = 0; i < rank; ++i) {
    int64_t limit = i + 1 < rank ? EJK_MAX_BOX_SIZE : EJK_TENSOR_MAP_SWIZZLE / bytes;
    if (!integer((*box)[i], at(where, "box", i), 1, limit, size))
      return false;
    map.box.push_back(unsigned(size));
  }
  // The size is now the innermost one's.
  if (size * bytes % EJK_TENSOR_MAP_ROW_ALIGNMENT != 0)
    return fail(at(where, "box", rank - 1), "expected a multiple of " +
                                                std::to_string(EJK_TENSOR_MAP_ROW_ALIGNMENT) +
                                                " bytes, but " + std::to_string(size) + " of " +
                                                dtype + " have " + std::to_string(size * bytes));
  return true;
}

bool Parser::mapSizes(const json &object, const std::string &where, const Entry &entry,
                      TensorMap &map) {
  const json *sizes, *strides;
  if (!array(object, "sizes", where, EJK_MAX_TENSOR_MAP_RANK, sizes) ||
      !array(object, "strides", where, EJK_MAX_TENSOR_MAP_RANK, strides))
    return false;
  size_t rank = sizes->size();
  if (rank == 0)
    return fail(dot(where, "sizes"),
                "expected 1 to " + std::to_string(EJK_MAX_TENSOR_MAP_RANK) + " expressions");
  if (strides->size() != rank - 1)
    return fail(dot(where, "strides"), "expected " + counted(rank - 1, "expression") +
                                           ", one less than sizes, but there are " +
                                           std::to_string(strides->size()));
  return expressions(*sizes, where, "sizes", entry, map.sizes) &&
         expressions(*strides, where, "strides", entry, map.strides);
}

// Version 2 describes a matrix whose rows follow one another without gaps.
bool Parser::mapMatrix(const json &object, const std::string &where, const Entry &entry,
                       TensorMap &map) {
  const json *rows = member(object, "rows", where);
  const json *columns = rows ? member(object, "columns", where) : nullptr;
  map.sizes.resize(2);
  if (!columns || !expression(*rows, dot(where, "rows"), entry, map.sizes[0]) ||
      !expression(*columns, dot(where, "columns"), entry, map.sizes[1]))
    return false;
  map.strides.push_back(map.sizes[1]);
  return true;
}

Result<Manifest> ejk::parseManifest(std::string_view text, uint64_t payloadSize,
                                    uint32_t formatVersion) {
  // A manifest nests some ten levels besides its expressions.
  JsonDocument document;
  if (!document.parse(text, 2 * EJK_MAX_EXPRESSION_DEPTH))
    return Error{ErrorCode::InvalidPackage, document.problem()};
  Parser parser(payloadSize, formatVersion);
  Manifest manifest;
  if (!parser.parse(document.root(), manifest))
    return Error{ErrorCode::InvalidPackage, parser.why};
  return manifest;
}
