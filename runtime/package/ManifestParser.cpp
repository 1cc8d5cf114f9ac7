//===- ManifestParser.cpp - a manifest's members, and the package ---------===//

#include "ManifestParser.h"

#include "JsonText.h"
#include "Names.h"

#include "ejk/package_format.h"

#include <algorithm>
#include <limits>

using namespace ejk;

const Entry *Manifest::findEntry(std::string_view name) const {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Typed access
//===----------------------------------------------------------------------===//

const json *ManifestParser::member(const json &object, const char *key, const std::string &where) {
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

bool ManifestParser::string(const json &object, const char *key, const std::string &where,
                            std::string &value) {
  const json *found = member(object, key, where);
  if (!found)
    return false;
  if (!found->is_string())
    return fail(dot(where, key), "expected a string");
  value = found->get_ref<const std::string &>();
  return true;
}

bool ManifestParser::text(const json &object, const char *key, const std::string &where,
                          std::string &value) {
  if (!string(object, key, where, value))
    return false;
  const char *problem = textProblem(value);
  return !problem || fail(dot(where, key), inQuotes(value) + " is not allowed: " + problem);
}

bool ManifestParser::name(const json &object, const char *key, const std::string &where,
                          std::string &value) {
  if (!string(object, key, where, value))
    return false;
  const char *problem = nameProblem(value);
  return !problem || fail(dot(where, key), inQuotes(value) + " is not a name: " + problem);
}

bool ManifestParser::integer(const json &value, const std::string &where, int64_t low, int64_t high,
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

bool ManifestParser::integerMember(const json &object, const char *key, const std::string &where,
                                   int64_t low, int64_t high, int64_t &result) {
  const json *found = member(object, key, where);
  return found && integer(*found, dot(where, key), low, high, result);
}

bool ManifestParser::array(const json &object, const char *key, const std::string &where,
                           size_t limit, const json *&value) {
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

bool ManifestParser::expression(const json &value, const std::string &where, const Entry &entry,
                                Expr &expr) {
  Result<Expr> parsed = Expr::parse(value, entry.symbols);
  if (!parsed)
    return fail(where, parsed.error().message);
  expr = std::move(*parsed);
  return true;
}

bool ManifestParser::expressions(const json &list, const std::string &where, const char *key,
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

// sm_90, or sm_90a: the letter says that no later architecture runs it.
bool ManifestParser::architecture(const json &object, const std::string &where,
                                  Architecture &result) {
  if (!string(object, "arch", where, result.name))
    return false;
  const std::string &arch = result.name;
  size_t digits = arch.rfind("sm_", 0) == 0 ? 3 : std::string::npos;
  size_t end = digits == std::string::npos ? digits : arch.find_first_not_of("0123456789", digits);
  bool letter =
      end != std::string::npos && end + 1 == arch.size() && (arch[end] == 'a' || arch[end] == 'f');
  size_t count = (letter ? arch.size() - 1 : arch.size()) - 3;
  if (digits == std::string::npos || (end != std::string::npos && !letter) || count < 2 ||
      count > 4)
    return fail(dot(where, "arch"), inQuotes(arch) + " is not of the form sm_90");
  result.number = std::stoi(arch.substr(3, count));
  auto it = object.find("arch_specific");
  if (it != object.end() && !it->is_boolean())
    return fail(dot(where, "arch_specific"), "expected a boolean");
  result.isSpecific = letter || (it != object.end() && it->get<bool>());
  return true;
}

bool ManifestParser::parse(const json &root, Manifest &manifest) {
  std::string format;
  if (!string(root, "format", "", format))
    return false;
  if (format != EJK_PACKAGE_FORMAT_NAME)
    return fail("format", "is " + inQuotes(format) + ", expected '" EJK_PACKAGE_FORMAT_NAME "'");
  int64_t version;
  const json *entries;
  if (!integerMember(root, "version", "", formatVersion, formatVersion, version) ||
      !text(root, "producer", "", manifest.producer))
    return false;
  // What images without an architecture of their own are compiled for.
  if (!hasVariants() || root.contains("arch")) {
    if (!architecture(root, "", manifest.architectures.emplace_back()))
      return false;
  }
  if (!images(root, manifest) || !array(root, "entries", "", 4096, entries))
    return false;
  for (const Architecture &arch : manifest.architectures)
    manifest.archText += (manifest.archText.empty() ? "" : ", ") + arch.name;
  if (entries->empty())
    return fail("entries", "is empty");
  manifest.entries.reserve(entries->size());
  for (size_t i = 0; i < entries->size(); ++i) {
    Entry parsed;
    std::string where = at("", "entries", i);
    if (!entry((*entries)[i], where, manifest, parsed))
      return false;
    if (manifest.findEntry(parsed.name))
      return fail(where, "a second entry named '" + parsed.name + "'");
    manifest.entries.push_back(std::move(parsed));
  }
  return true;
}

bool ManifestParser::images(const json &root, Manifest &manifest) {
  const json *images;
  if (!array(root, "images", "", EJK_MAX_IMAGES, images))
    return false;
  if (images->empty())
    return fail("images", "is empty");
  size_t numGiven = manifest.architectures.size();
  uint64_t end = 0;
  bool usesGiven = false;
  for (size_t i = 0; i < images->size(); ++i) {
    std::string where = at("", "images", i);
    if (!image((*images)[i], where, manifest))
      return false;
    const Image &parsed = manifest.images.back();
    usesGiven |= size_t(parsed.architecture) < numGiven;
    // Images that share bytes would be copied more often than they are stored.
    if (parsed.offset != end)
      return fail(where, "starts at byte " + std::to_string(parsed.offset) +
                             " of the payload, expected " + std::to_string(end) +
                             ", where the one before it ends");
    end = parsed.offset + parsed.stored;
  }
  if (end != payloadSize)
    return fail("images", "end at byte " + std::to_string(end) + " of the payload, which has " +
                              std::to_string(payloadSize) + " bytes");
  if (numGiven > 0 && !usesGiven)
    return fail("arch", "no image is compiled for " + manifest.architectures.front().name);
  return true;
}

bool ManifestParser::image(const json &object, const std::string &where, Manifest &manifest) {
  std::string kind;
  int64_t offset, size, max = std::numeric_limits<int64_t>::max();
  if (!string(object, "kind", where, kind) ||
      !integerMember(object, "offset", where, 0, max, offset) ||
      !integerMember(object, "size", where, 1, max, size))
    return false;
  int64_t stored = size;
  bool isCompressed = hasCompressedImages() && object.contains("compressed");
  if (isCompressed && !integerMember(object, "compressed", where, 1, max, stored))
    return false;
  bool isCpu = kind == "cpu" && hasVariants();
  if (kind != "ptx" && kind != "cubin" && !isCpu)
    return fail(where, "unknown image kind " + inQuotes(kind));
  if (uint64_t(offset) > payloadSize || uint64_t(stored) > payloadSize - uint64_t(offset))
    return fail(where, "bytes " + std::to_string(offset) + " to +" + std::to_string(stored) +
                           " lie outside the " + std::to_string(payloadSize) +
                           " bytes of the payload");
  if (size > EJK_MAX_PAYLOAD_SIZE)
    return fail(where + ".size", "is more than " + std::to_string(EJK_MAX_PAYLOAD_SIZE));
  Image image;
  image.kind = isCpu           ? Image::Kind::Cpu
               : kind == "ptx" ? Image::Kind::Ptx
                               : Image::Kind::Cubin;
  image.offset = uint64_t(offset);
  image.stored = uint64_t(stored);
  image.size = uint64_t(size);
  image.isCompressed = isCompressed;
  if (!imageArchitecture(object, where, manifest, image) ||
      (isCpu && !imageKernels(object, where, image)))
    return false;
  manifest.images.push_back(std::move(image));
  return true;
}

// Where each kernel starts: within the image, at an address that its instructions can have.
bool ManifestParser::imageKernels(const json &object, const std::string &where, Image &image) {
  const json *kernels = member(object, "kernels", where);
  if (!kernels)
    return false;
  std::string here = dot(where, "kernels");
  if (!kernels->is_object() || kernels->size() > EJK_MAX_KERNELS)
    return fail(here, "expected an object of at most " + std::to_string(EJK_MAX_KERNELS) +
                          " kernels");
  for (auto it = kernels->begin(); it != kernels->end(); ++it) {
    int64_t offset;
    if (const char *problem = nameProblem(it.key()))
      return fail(here, inQuotes(it.key()) + " is not a name: " + problem);
    if (!integer(it.value(), dot(here, it.key().c_str()), 0, int64_t(image.size) - 1, offset))
      return false;
    if (offset % EJK_CPU_CODE_ALIGNMENT != 0)
      return fail(dot(here, it.key().c_str()), "expected a multiple of " +
                                                   std::to_string(EJK_CPU_CODE_ALIGNMENT));
    image.kernels.emplace_back(it.key(), uint64_t(offset));
  }
  return true;
}

// The image's own, or else the package's.
bool ManifestParser::imageArchitecture(const json &object, const std::string &where,
                                       Manifest &manifest, Image &image) {
  std::vector<Architecture> &known = manifest.architectures;
  if (!hasVariants() || (image.kind != Image::Kind::Cpu && !object.contains("arch") &&
                         !known.empty() && !known.front().isCpu)) {
    image.architecture = 0;
    return true;
  }
  Architecture own;
  own.isCpu = image.kind == Image::Kind::Cpu;
  if (own.isCpu ? !name(object, "arch", where, own.name) : !architecture(object, where, own))
    return false;
  auto same = std::find_if(known.begin(), known.end(),
                           [&](const Architecture &other) { return other.name == own.name; });
  if (same != known.end() && same->isCpu != own.isCpu)
    return fail(dot(where, "arch"), own.name + " is a CPU's in one image and a GPU's in another");
  if (same != known.end() && same->isSpecific != own.isSpecific)
    return fail(dot(where, "arch_specific"),
                "differs from what another image of " + own.name + " says");
  image.architecture = int(same - known.begin());
  if (same == known.end())
    known.push_back(std::move(own));
  return true;
}

Result<Manifest> ejk::parseManifest(std::string_view text, uint64_t payloadSize,
                                    uint32_t formatVersion) {
  // A manifest nests some ten levels besides its expressions.
  JsonDocument document;
  if (!document.parse(text, 2 * EJK_MAX_EXPRESSION_DEPTH))
    return Error{ErrorCode::InvalidPackage, document.problem()};
  ManifestParser parser(payloadSize, formatVersion);
  Manifest manifest;
  if (!parser.parse(document.root(), manifest))
    return Error{ErrorCode::InvalidPackage, parser.why};
  return manifest;
}
