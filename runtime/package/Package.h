//===- Package.h - reading and writing kernel packages ----------*- C++ -*-===//

#ifndef EJK_RUNTIME_PACKAGE_PACKAGE_H
#define EJK_RUNTIME_PACKAGE_PACKAGE_H

#include "Manifest.h"
#include "Result.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ejk {

/// A package in memory. It owns copies of all it needs.
struct Package {
  Manifest manifest;
  std::string manifestText;
  /// The bytes of manifest.images[i], as they are stored.
  std::vector<std::string> images;

  /// The first image of this kind for that one of the manifest's architectures.
  const Image *findImage(Image::Kind kind, int architecture = 0) const;

  /// The code of one of the manifest's images; as a C string, PTX ends with a NUL. An image that is
  /// compressed wrongly is an error.
  Result<std::string> codeOf(const Image &image) const;
};

/// Checks magic, version, sizes, checksum and manifest. Any bytes whatever give
/// a package or an error.
Result<Package> readPackage(std::string_view bytes);

/// Reads a package file for readPackage(). The header is checked before
/// anything behind it is read, so the sizes that it promises bound the memory.
/// The file may be a pipe. An error names the path.
Result<std::string> readPackageFile(const std::string &path);

struct ImageData {
  Image::Kind kind;
  std::string bytes;
  /// "" for the manifest's own "arch".
  std::string arch = "";
  bool archSpecific = false;
  /// Of a CPU's image: where each kernel starts in it.
  std::vector<std::pair<std::string, uint64_t>> kernels = {};
};

/// Lays out a package's file, with images compressed where that makes them smaller. The manifest's
/// "format", "version" and "images" are filled in here; everything else comes from the caller.
std::string serializePackage(const nlohmann::json &manifestWithoutImages,
                             const std::vector<ImageData> &images);

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_PACKAGE_H
