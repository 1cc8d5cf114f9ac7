//===- Package.cpp - reading and writing kernel packages ------------------===//

#include "Package.h"

#include "ejk/package_format.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

using namespace ejk;

// The header is copied as it stands, which is right on little-endian hosts
// only; the driver exists on no other.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

static Error invalid(std::string message) {
  return {ErrorCode::InvalidPackage, "not a usable ejk package: " + message};
}

const std::string *Package::findImage(Image::Kind kind) const {
  for (size_t i = 0; i < images.size(); ++i)
    if (manifest.images[i].kind == kind)
      return &images[i];
  return nullptr;
}

Result<Package> ejk::readPackage(std::string_view bytes) {
  ejk_package_header header;
  if (bytes.size() < sizeof(header))
    return invalid("it has " + std::to_string(bytes.size()) + " bytes, fewer than the " +
                   std::to_string(sizeof(header)) + " of the header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, EJK_PACKAGE_MAGIC, EJK_PACKAGE_MAGIC_SIZE) != 0)
    return invalid("it does not start with the magic bytes EJKPKG\\r\\n");
  if (header.version != EJK_PACKAGE_VERSION)
    return invalid("its format version is " + std::to_string(header.version) +
                   ", this runtime reads version " + std::to_string(EJK_PACKAGE_VERSION) +
                   "; recompile it or update the runtime");
  if (header.header_size != sizeof(header))
    return invalid("its header size is " + std::to_string(header.header_size) + ", expected " +
                   std::to_string(sizeof(header)));
  if (std::any_of(std::begin(header.reserved), std::end(header.reserved),
                  [](uint8_t byte) { return byte != 0; }))
    return invalid("reserved header bytes are not zero");

  std::string_view body = bytes.substr(sizeof(header));
  // Compared one by one, since the sum of two damaged sizes may wrap.
  if (header.manifest_size > body.size() ||
      header.payload_size != body.size() - header.manifest_size)
    return invalid("its header promises " + std::to_string(header.manifest_size) +
                   " bytes of manifest and " + std::to_string(header.payload_size) +
                   " of payload, but " + std::to_string(body.size()) +
                   " bytes follow it (truncated?)");
  if (XXH3_64bits(body.data(), body.size()) != header.checksum)
    return invalid("the checksum does not match; the file is damaged");

  Package package;
  package.manifestText = body.substr(0, header.manifest_size);
  Result<Manifest> manifest = parseManifest(package.manifestText, header.payload_size);
  if (!manifest)
    return invalid("manifest: " + manifest.error().message);
  package.manifest = std::move(*manifest);
  std::string_view payload = body.substr(header.manifest_size);
  for (const Image &image : package.manifest.images)
    package.images.emplace_back(payload.substr(image.offset, image.size));
  return package;
}

std::string ejk::serializePackage(const nlohmann::json &manifestWithoutImages,
                                  const std::vector<ImageData> &images) {
  nlohmann::json manifest = manifestWithoutImages;
  manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
  manifest["version"] = EJK_PACKAGE_VERSION;
  manifest["images"] = nlohmann::json::array();
  std::string payload;
  for (const ImageData &image : images) {
    manifest["images"].push_back({{"kind", image.kind == Image::Kind::Ptx ? "ptx" : "cubin"},
                                  {"offset", payload.size()},
                                  {"size", image.bytes.size()}});
    payload += image.bytes;
  }
  std::string text = manifest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);

  ejk_package_header header = {};
  std::memcpy(header.magic, EJK_PACKAGE_MAGIC, EJK_PACKAGE_MAGIC_SIZE);
  header.version = EJK_PACKAGE_VERSION;
  header.header_size = sizeof(header);
  header.manifest_size = text.size();
  header.payload_size = payload.size();
  std::string body = std::move(text) + payload;
  header.checksum = XXH3_64bits(body.data(), body.size());
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof(header));
  return bytes + body;
}
