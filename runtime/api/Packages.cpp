//===- Packages.cpp - the C API's packages and what they tell -------------===//

#include "CallPlan.h"

#include "../package/Names.h"

#include <algorithm>

using namespace ejk;

static ejk_error *nullArgument(const char *name) {
  return makeError(ErrorCode::InvalidArgument, std::string(name) + " is NULL");
}

const Entry *ejk::findEntry(const ejk_package *package, size_t index, ejk_error *&error) {
  if (!package) {
    error = nullArgument("package");
    return nullptr;
  }
  return findEntry(package->package->manifest, index, error);
}

const Entry *ejk::findEntry(const Manifest &manifest, size_t index, ejk_error *&error) {
  const std::vector<Entry> &entries = manifest.entries;
  if (index < entries.size())
    return &entries[index];
  error = makeError(ErrorCode::InvalidArgument, "entry index " + std::to_string(index) +
                                                    " is out of range; the package has " +
                                                    std::to_string(entries.size()) + " entries");
  return nullptr;
}

static ejk_error *hold(Package &&read, ejk_package **package) {
  *package = new ejk_package{std::make_shared<const Package>(std::move(read))};
  return nullptr;
}

ejk_error *ejk_package_load_memory(const void *data, size_t size, ejk_package **package) {
  return guarded([&]() -> ejk_error * {
    if (!package || (!data && size != 0))
      return nullArgument(package ? "data" : "package");
    Result<Package> read = readPackage({static_cast<const char *>(data), size});
    return read ? hold(std::move(*read), package) : makeError(read.error());
  });
}

ejk_error *ejk_package_load_file(const char *path, ejk_package **package) {
  return guarded([&]() -> ejk_error * {
    if (!path || !package)
      return nullArgument(path ? "package" : "path");
    Result<std::string> bytes = readPackageFile(path);
    if (!bytes)
      return makeError(bytes.error());
    Result<Package> read = readPackage(*bytes);
    if (!read)
      return makeError(read.error().code, inQuotes(path) + ": " + read.error().message);
    return hold(std::move(*read), package);
  });
}

void ejk_package_destroy(ejk_package *package) { delete package; }

const char *ejk_package_manifest(const ejk_package *package) {
  return package ? package->package->manifestText.c_str() : "";
}

const char *ejk_package_arch(const ejk_package *package) {
  return package ? package->package->manifest.archText.c_str() : "";
}

size_t ejk_package_entry_count(const ejk_package *package) {
  return package ? package->package->manifest.entries.size() : 0;
}

ejk_error *ejk_package_find_entry(const ejk_package *package, const char *name, size_t *entry) {
  return guarded([&]() -> ejk_error * {
    if (!package || !name || !entry)
      return nullArgument(!package ? "package" : !name ? "name" : "entry");
    std::string known;
    const std::vector<Entry> &entries = package->package->manifest.entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name == name) {
        *entry = i;
        return nullptr;
      }
      known += (i == 0 ? "" : ", ") + entries[i].name;
    }
    return makeError(ErrorCode::InvalidArgument,
                     "the package has no entry " + inQuotes(name) + "; it has: " + known);
  });
}

/// Of all variants, in their order.
static size_t numKernels(const Entry &entry) {
  size_t count = 0;
  for (const Variant &variant : entry.variants)
    count += variant.launches.size();
  return count;
}

ejk_error *ejk_entry_get_info(const ejk_package *package, size_t entry, ejk_entry_info *info) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    if (!info)
      return nullArgument("info");
    if (ejk_error *error = checkStructSize("ejk_entry_info", info->struct_size,
                                           offsetof(ejk_entry_info, num_variants)))
      return error;
    info->name = found->name.c_str();
    info->num_inputs = found->inputs.size();
    info->num_outputs = found->outputs.size();
    info->num_kernels = numKernels(*found);
    if (EJK_HAS_FIELD(*info, num_variants))
      info->num_variants = found->variants.size();
    return nullptr;
  });
}

static ejk_error *indexError(const char *kind, size_t index, size_t count) {
  return makeError(ErrorCode::InvalidArgument,
                   std::string(kind) + " index " + std::to_string(index) +
                       " is out of range; the entry has " + std::to_string(count));
}

ejk_error *ejk_entry_get_kernel_name(const ejk_package *package, size_t entry, size_t index,
                                     const char **name) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    if (!name)
      return nullArgument("name");
    size_t left = index;
    for (const Variant &variant : found->variants) {
      if (left < variant.launches.size()) {
        *name = variant.launches[left].kernel.c_str();
        return nullptr;
      }
      left -= variant.launches.size();
    }
    return indexError("kernel", index, numKernels(*found));
  });
}

static const char *textOf(const std::optional<Expr> &condition) {
  return condition ? condition->text().c_str() : "";
}

ejk_error *ejk_entry_get_variant_info(const ejk_package *package, size_t entry, size_t index,
                                      ejk_variant_info *info) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    if (!info)
      return nullArgument("info");
    if (ejk_error *error = checkStructSize("ejk_variant_info", info->struct_size, sizeof(*info)))
      return error;
    if (index >= found->variants.size())
      return indexError("variant", index, found->variants.size());
    const Variant &variant = found->variants[index];
    const std::vector<Architecture> &archs = package->package->manifest.architectures;
    info->schedule = variant.schedule.c_str();
    info->arch = variant.architecture < 0 ? "" : archs[size_t(variant.architecture)].name.c_str();
    info->needs = textOf(variant.needs);
    info->when = textOf(variant.when);
    info->num_kernels = variant.launches.size();
    return nullptr;
  });
}

static ejk_error *tensorInfo(const std::vector<TensorSpec> &specs, const char *kind, size_t index,
                             ejk_tensor_info *info) {
  if (!info)
    return nullArgument("info");
  if (ejk_error *error = checkStructSize("ejk_tensor_info", info->struct_size, sizeof(*info)))
    return error;
  if (index >= specs.size())
    return indexError(kind, index, specs.size());
  const TensorSpec &spec = specs[index];
  info->name = spec.name.c_str();
  info->role = spec.role.c_str();
  info->shape = spec.shapeText.c_str();
  info->dtype = toDLDataType(spec.dtype);
  info->rank = int32_t(spec.dims.size());
  info->may_alias = spec.mayAlias;
  info->alignment = spec.align;
  return nullptr;
}

ejk_error *ejk_entry_get_input_info(const ejk_package *package, size_t entry, size_t index,
                                    ejk_tensor_info *info) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    return found ? tensorInfo(found->inputs, "input", index, info) : error;
  });
}

ejk_error *ejk_entry_get_output_info(const ejk_package *package, size_t entry, size_t index,
                                     ejk_tensor_info *info) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    return found ? tensorInfo(found->outputs, "output", index, info) : error;
  });
}

ejk_error *ejk_entry_output_shape(const ejk_package *package, size_t entry,
                                  const DLTensor *const *inputs, size_t num_inputs,
                                  size_t output_index, int64_t *shape, int32_t *rank) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    if (!rank)
      return nullArgument("rank");
    if (output_index >= found->outputs.size())
      return indexError("output", output_index, found->outputs.size());
    const TensorSpec &spec = found->outputs[output_index];
    int32_t needed = int32_t(spec.dims.size());
    if (*rank < needed || (needed > 0 && !shape))
      return makeError(ErrorCode::InvalidArgument, "the shape array holds " +
                                                       std::to_string(shape ? *rank : 0) +
                                                       " dimensions, but output '" + spec.name +
                                                       "' has " + std::to_string(needed));
    Symbols symbols;
    if (ejk_error *error = bindInputs(*found, {inputs, num_inputs}, symbols))
      return error;
    int64_t sizes[EJK_MAX_RANK];
    for (int32_t d = 0; d < needed; ++d) {
      const Expr &expr = spec.dims[d].expr;
      const char *why = expr.evaluate(symbols.values, sizes[d]);
      if (!why && sizes[d] < 0)
        why = "it is negative";
      if (why)
        return makeError(ErrorCode::InvalidTensor, "output '" + spec.name + "': dimension " +
                                                       std::to_string(d) + ", " + expr.text() +
                                                       ", is unusable: " + why + " (" +
                                                       explainSymbols(*found, expr, symbols) + ")");
    }
    std::copy(sizes, sizes + needed, shape);
    *rank = needed;
    return nullptr;
  });
}

ejk_error *ejk_entry_workspace_bytes(const ejk_package *package, size_t entry,
                                     const DLTensor *const *inputs, size_t num_inputs,
                                     size_t *bytes) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    if (!bytes)
      return nullArgument("bytes");
    Symbols symbols;
    PossibleVariants possible;
    if (ejk_error *error = bindInputs(*found, {inputs, num_inputs}, symbols))
      return error;
    if (ejk_error *error =
            findPossibleVariants(package->package->manifest, *found, symbols, possible))
      return error;
    int64_t most = 0;
    for (size_t v = 0; v < found->variants.size(); ++v) {
      WorkspaceLayout layout;
      if (!possible.may[v])
        continue;
      if (ejk_error *error = layOutWorkspace(*found, found->variants[v], symbols, layout))
        return error;
      most = std::max(most, layout.bytes);
    }
    *bytes = size_t(most);
    return nullptr;
  });
}

ejk_error *ejk_entry_check(const ejk_package *package, size_t entry, const DLTensor *const *inputs,
                           size_t num_inputs, const DLTensor *const *outputs, size_t num_outputs) {
  return guarded([&]() -> ejk_error * {
    ejk_error *error = nullptr;
    const Entry *found = findEntry(package, entry, error);
    if (!found)
      return error;
    CallArguments arguments;
    arguments.inputs = {inputs, num_inputs};
    arguments.outputs = {outputs, num_outputs};
    CallPlan plan;
    if (ejk_error *error = planCall(package->package->manifest, *found, arguments, plan))
      return error;
    return checkSequenceOffsets(*found, arguments.inputs, plan.symbols);
  });
}
