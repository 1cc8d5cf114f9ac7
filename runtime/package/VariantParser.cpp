//===- VariantParser.cpp - the ways to compute an entry -------------------===//

#include "ManifestParser.h"

#include "Names.h"

#include "ejk/package_format.h"

using namespace ejk;

bool ManifestParser::variants(const json &object, const std::string &where,
                              const Manifest &manifest, Entry &entry) {
  if (!hasVariants() || !object.contains("variants")) {
    // The entry itself is its one variant.
    Variant &only = entry.variants.emplace_back();
    return workspaces(object, where, entry, only) && launches(object, where, entry, only);
  }
  for (const char *key : {"workspace", "launches"})
    if (object.contains(key))
      return fail(dot(where, key), "stands beside 'variants', which have their own");
  const json *list;
  if (!array(object, "variants", where, EJK_MAX_VARIANTS, list))
    return false;
  entry.variants.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i)
    if (!variant((*list)[i], at(where, "variants", i), manifest, entry,
                 entry.variants.emplace_back()))
      return false;
  return complete(where, manifest, entry);
}

bool ManifestParser::variant(const json &object, const std::string &where, const Manifest &manifest,
                             const Entry &entry, Variant &variant) {
  if (!name(object, "schedule", where, variant.schedule))
    return false;
  if (object.contains("arch")) {
    std::string arch;
    if (!string(object, "arch", where, arch))
      return false;
    const std::vector<Architecture> &known = manifest.architectures;
    for (size_t i = 0; i < known.size() && variant.architecture < 0; ++i)
      if (known[i].name == arch)
        variant.architecture = int(i);
    if (variant.architecture < 0)
      return fail(dot(where, "arch"), "no image is compiled for " + inQuotes(arch) +
                                          "; there are images for " + manifest.archText);
  }
  return condition(object, "needs", where, entry, variant.needs) &&
         condition(object, "when", where, entry, variant.when) &&
         workspaces(object, where, entry, variant) && launches(object, where, entry, variant);
}

bool ManifestParser::complete(const std::string &where, const Manifest &manifest,
                              const Entry &entry) {
  for (size_t a = 0; a < manifest.architectures.size(); ++a) {
    const Variant *last = nullptr;
    for (const Variant &variant : entry.variants)
      if (variant.isFor(int(a)))
        last = &variant;
    const std::string &arch = manifest.architectures[a].name;
    if (!last)
      return fail(dot(where, "variants"), "there is none for " + arch);
    if (last->when || last->needs)
      return fail(dot(where, "variants"),
                  "the last one for " + arch + ", '" + last->schedule +
                      "', has a condition, so that there may be sizes that none takes");
  }
  return true;
}

bool ManifestParser::condition(const json &object, const char *key, const std::string &where,
                               const Entry &entry, std::optional<Expr> &expr) {
  if (!hasVariants() || !object.contains(key))
    return true;
  std::vector<std::string> names = entry.symbols;
  // A slot for each symbol and fact, whichever of them occur.
  names.insert(names.end(), std::begin(deviceFactNames), std::end(deviceFactNames));
  Result<Expr> parsed = Expr::parse(object[key], names);
  if (!parsed)
    return fail(dot(where, key), parsed.error().message);
  expr = std::move(*parsed);
  return true;
}

bool ManifestParser::workspaces(const json &object, const std::string &where, const Entry &entry,
                                Variant &variant) {
  if (!object.contains("workspace"))
    return true;
  const json *list;
  if (!array(object, "workspace", where, EJK_MAX_WORKSPACES, list))
    return false;
  for (size_t i = 0; i < list->size(); ++i) {
    Workspace workspace;
    std::string here = at(where, "workspace", i);
    const json *bytes = member((*list)[i], "bytes", here);
    if (!bytes || !name((*list)[i], "name", here, workspace.name) ||
        !expression(*bytes, dot(here, "bytes"), entry, workspace.bytes))
      return false;
    variant.workspaces.push_back(std::move(workspace));
  }
  return true;
}

bool ManifestParser::launches(const json &object, const std::string &where, const Entry &entry,
                              Variant &variant) {
  const json *list;
  if (!array(object, "launches", where, EJK_MAX_LAUNCHES, list))
    return false;
  size_t numArguments = 0, numTensorMaps = 0;
  variant.launches.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    Launch &parsed = variant.launches.emplace_back();
    if (!launch((*list)[i], at(where, "launches", i), entry, variant, parsed))
      return false;
    numArguments += parsed.args.size();
    numTensorMaps += parsed.tensorMaps.size();
  }
  if (numArguments > EJK_MAX_ARGUMENTS)
    return fail(dot(where, "launches"), "have too many arguments together");
  if (numTensorMaps > EJK_MAX_TENSOR_MAPS)
    return fail(dot(where, "launches"), "have " + std::to_string(numTensorMaps) +
                                            " tensor maps together, more than the limit of " +
                                            std::to_string(EJK_MAX_TENSOR_MAPS));
  return true;
}
