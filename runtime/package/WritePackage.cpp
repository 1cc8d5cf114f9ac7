//===- WritePackage.cpp - writing kernel packages -------------------------===//
//
// Apart from what reads them, so that the runtime has no compressor in it.
//
//===----------------------------------------------------------------------===//

#include "Package.h"

#include "ejk/package_format.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <cstring>

using namespace ejk;

// PTX becomes a seventh, a binary two sevenths, at some 100 MB/s; higher levels save less than that.
static constexpr int compressionLevel = 5;

// A frame of `bytes`; nothing if it is no shorter.
static std::string compress(const std::string &bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  size_t size =
      ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), compressionLevel);
  if (ZSTD_isError(size) || size >= bytes.size())
    return {};
  frame.resize(size);
  return frame;
}

std::string ejk::serializePackage(const nlohmann::json &manifestWithoutImages,
                                  const std::vector<ImageData> &images) {
  nlohmann::json manifest = manifestWithoutImages;
  manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
  manifest["version"] = EJK_PACKAGE_VERSION;
  manifest["images"] = nlohmann::json::array();
  std::string payload;
  for (const ImageData &image : images) {
    nlohmann::json described = {{"kind", image.kind == Image::Kind::Ptx     ? "ptx"
                                         : image.kind == Image::Kind::Cubin ? "cubin"
                                                                            : "cpu"},
                                {"offset", payload.size()},
                                {"size", image.bytes.size()}};
    std::string frame = compress(image.bytes);
    if (!frame.empty())
      described["compressed"] = frame.size();
    if (!image.arch.empty()) {
      described["arch"] = image.arch;
      if (image.kind != Image::Kind::Cpu)
        described["arch_specific"] = image.archSpecific;
    }
    if (image.kind == Image::Kind::Cpu)
      described["kernels"] = nlohmann::json::object();
    for (const auto &[name, offset] : image.kernels)
      described["kernels"][name] = offset;
    manifest["images"].push_back(std::move(described));
    payload += frame.empty() ? image.bytes : frame;
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
