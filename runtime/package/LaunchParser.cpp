//===- LaunchParser.cpp - a launch of a manifest --------------------------===//

#include "ManifestParser.h"

#include "Names.h"

#include "ejk/package_format.h"

using namespace ejk;

static std::string counted(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

bool ManifestParser::launch(const json &object, const std::string &where, const Entry &entry,
                            const Variant &variant, Launch &launch) {
  const json *block, *args;
  int64_t shared, threads = 1;
  if (!name(object, "kernel", where, launch.kernel) || !array(object, "block", where, 3, block) ||
      !integerMember(object, "shared_bytes", where, 0, 1 << 20, shared))
    return false;
  launch.sharedBytes = unsigned(shared);
  if (!condition(object, "when", where, entry, launch.when))
    return false;
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
      !array(object, "args", where, EJK_MAX_LAUNCH_ARGUMENTS, args))
    return false;
  for (size_t i = 0; i < args->size(); ++i)
    if (!argument((*args)[i], at(where, "args", i), entry, variant, launch))
      return false;
  return true;
}

bool ManifestParser::argument(const json &object, const std::string &where, const Entry &entry,
                              const Variant &variant, Launch &launch) {
  Argument &argument = launch.args.emplace_back();
  // Version 1 has no tensor maps.
  if (formatVersion > 1 && object.is_object() && object.contains("tensor_map")) {
    const json &mapped = object["tensor_map"];
    std::string here = dot(where, "tensor_map");
    if (!mapped.is_object() || mapped.size() != 1)
      return fail(here, "expected one of {input}, {output}, {workspace}");
    argument.tensorMap = int(launch.tensorMaps.size());
    return buffer(mapped.begin().key(), mapped.begin().value(), here, entry, variant, argument) &&
           tensorMap(object, where, entry, launch.tensorMaps.emplace_back());
  }
  if (!object.is_object() || object.size() != 1)
    return fail(where, "expected one of {input}, {output}, {workspace}, {i64}, {slot_stride}, "
                       "{tensor_map, dtype, sizes, strides, box}");
  const std::string &key = object.begin().key();
  const json &value = object.begin().value();
  if (key == "slot_stride") {
    if (!buffer("input", value, where, entry, variant, argument))
      return false;
    argument.kind = Argument::Kind::SlotStride;
    return entry.inputs[size_t(argument.index)].hasSlots || fail(where, "the input has no slots");
  }
  if (key != "i64")
    return buffer(key, value, where, entry, variant, argument);
  argument.kind = Argument::Kind::Integer;
  return expression(value, where, entry, argument.value);
}

bool ManifestParser::buffer(const std::string &key, const json &value, const std::string &where,
                            const Entry &entry, const Variant &variant, Argument &argument) {
  size_t count;
  if (key == "input") {
    argument.kind = Argument::Kind::Input;
    count = entry.inputs.size();
  } else if (key == "output") {
    argument.kind = Argument::Kind::Output;
    count = entry.outputs.size();
  } else if (key == "workspace") {
    argument.kind = Argument::Kind::Workspace;
    count = variant.workspaces.size();
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

bool ManifestParser::tensorMap(const json &object, const std::string &where, const Entry &entry,
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

bool ManifestParser::mapSizes(const json &object, const std::string &where, const Entry &entry,
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
bool ManifestParser::mapMatrix(const json &object, const std::string &where, const Entry &entry,
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
