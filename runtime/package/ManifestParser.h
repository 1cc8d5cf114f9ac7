//===- ManifestParser.h - from JSON to a validated manifest -----*- C++ -*-===//
//
// Nothing in the text is trusted: every type, index and bound is checked here,
// once, so that a launch need not. The parts of the class lie in the files of
// what they parse: the package, an entry, a launch.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_PACKAGE_MANIFESTPARSER_H
#define EJK_RUNTIME_PACKAGE_MANIFESTPARSER_H

#include "Manifest.h"

#include <nlohmann/json.hpp>

namespace ejk {

using nlohmann::json;

/// Each parse function returns false once `why` says where and what.
class ManifestParser {
public:
  ManifestParser(uint64_t payloadSize, uint32_t formatVersion)
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

  bool architecture(const json &object, const std::string &where, Architecture &arch);
  bool images(const json &root, Manifest &manifest);
  bool image(const json &object, const std::string &where, Manifest &manifest);
  bool imageArchitecture(const json &object, const std::string &where, Manifest &manifest,
                         Image &image);
  bool imageKernels(const json &object, const std::string &where, Image &image);
  bool entry(const json &object, const std::string &where, const Manifest &manifest, Entry &entry);
  bool constraint(const json &object, const std::string &where, Entry &entry);
  bool tensor(const json &object, const std::string &where, TensorSpec &spec);
  bool unique(const std::vector<TensorSpec> &specs, const std::string &where, const char *what);
  bool inputShapes(const json &inputs, const std::string &where, Entry &entry);
  void bindingDim(const json &dim, int input, int position, Entry &entry, Dim &result);
  bool rowStride(const json &object, const std::string &where, int input, Entry &entry,
                 TensorSpec &spec);
  bool output(const json &object, const std::string &where, Entry &entry);

  bool variants(const json &object, const std::string &where, const Manifest &manifest,
                Entry &entry);
  bool variant(const json &object, const std::string &where, const Manifest &manifest,
               const Entry &entry, Variant &variant);
  /// That each architecture has variants, the last of which has no condition.
  bool complete(const std::string &where, const Manifest &manifest, const Entry &entry);
  bool workspaces(const json &object, const std::string &where, const Entry &entry,
                  Variant &variant);
  bool launches(const json &object, const std::string &where, const Entry &entry, Variant &variant);
  /// A member that may be missing: an expression that reads the device's facts, too.
  bool condition(const json &object, const char *key, const std::string &where, const Entry &entry,
                 std::optional<Expr> &expr);
  bool launch(const json &object, const std::string &where, const Entry &entry,
              const Variant &variant, Launch &launch);
  bool argument(const json &object, const std::string &where, const Entry &entry,
                const Variant &variant, Launch &launch);
  bool buffer(const std::string &key, const json &value, const std::string &where,
              const Entry &entry, const Variant &variant, Argument &argument);
  bool tensorMap(const json &object, const std::string &where, const Entry &entry, TensorMap &map);
  bool mapSizes(const json &object, const std::string &where, const Entry &entry, TensorMap &map);
  bool mapMatrix(const json &object, const std::string &where, const Entry &entry, TensorMap &map);

  /// Whether the version has variants, conditions and images of several architectures.
  bool hasVariants() const { return formatVersion >= 4; }
  bool hasCompressedImages() const { return formatVersion >= 5; }

  uint64_t payloadSize;
  uint32_t formatVersion;
};

inline std::string at(const std::string &where, const char *key, size_t i) {
  return where + (where.empty() ? "" : ".") + key + "[" + std::to_string(i) + "]";
}

inline std::string dot(const std::string &where, const char *key) {
  return where + (where.empty() ? "" : ".") + key;
}

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_MANIFESTPARSER_H
