//===- ManifestErrors.h - errors of manifests with a fault --------*- C++ -*-===//
#ifndef EJK_TEST_RUNTIME_MANIFESTERRORS_H
#define EJK_TEST_RUNTIME_MANIFESTERRORS_H

#include "TestPackage.h"

namespace ejk::test {

/// The error for glaManifest with one value replaced.
inline std::string patched(const char *pointer, nlohmann::json value) {
  nlohmann::json manifest = glaManifest();
  manifest[nlohmann::json::json_pointer(pointer)] = std::move(value);
  // A text that is no object has nowhere to put the images.
  if (!manifest.is_object()) {
    Result<Manifest> parsed = parseManifest(manifest.dump(), 0);
    return parsed ? "" : parsed.error().message;
  }
  Result<Package> package = readPackage(pack(manifest));
  return package ? "" : package.error().message;
}

/// The error for glaManifest without one key.
inline std::string removed(const char *parent, const char *key) {
  nlohmann::json manifest = glaManifest();
  manifest[nlohmann::json::json_pointer(parent)].erase(key);
  Result<Package> package = readPackage(pack(manifest));
  return package ? "" : package.error().message;
}

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_MANIFESTERRORS_H
