//===- Package.cpp - reading kernel packages ------------------------------===//

#include "Package.h"

#include "Names.h"

#include "ejk/package_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ejk;

// The header is copied as it stands, which is right on little-endian hosts
// only; the driver exists on no other.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

static Error invalid(std::string message) {
  return {ErrorCode::InvalidPackage, "not a usable ejk package: " + message};
}

static uint64_t bodySize(const ejk_package_header &header) {
  return header.manifest_size + header.payload_size; // readHeader() bounds both
}

static std::string promised(const ejk_package_header &header) {
  return std::to_string(header.manifest_size) + " bytes of manifest and " +
         std::to_string(header.payload_size) + " of payload";
}

const Image *Package::findImage(Image::Kind kind, int architecture) const {
  auto found =
      std::find_if(manifest.images.begin(), manifest.images.end(), [&](const Image &image) {
        return image.kind == kind && image.architecture == architecture;
      });
  return found == manifest.images.end() ? nullptr : &*found;
}

//===----------------------------------------------------------------------===//
// Compression
//===----------------------------------------------------------------------===//

// What `frame` holds, if that is `size` bytes; otherwise nothing. A promise of many bytes takes memory
// only as they arrive.
static std::string decompress(const std::string &frame, uint64_t size) {
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream *)> stream(ZSTD_createDStream(),
                                                                   ZSTD_freeDStream);
  std::string bytes;
  ZSTD_inBuffer in = {frame.data(), frame.size(), 0};
  for (size_t left = 1; stream && left != 0;) {
    constexpr uint64_t least = 1 << 16;
    size_t old = bytes.size();
    bytes.resize(old + size_t(std::min(size - old, std::max<uint64_t>(old, least))));
    ZSTD_outBuffer out = {bytes.data(), bytes.size(), old};
    size_t read = in.pos;
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    bool isStuck = out.pos == old && in.pos == read;
    bytes.resize(out.pos);
    if (ZSTD_isError(left) || (left != 0 && isStuck))
      return {};
  }
  return bytes.size() == size && in.pos == in.size ? bytes : std::string();
}

Result<std::string> Package::codeOf(const Image &image) const {
  size_t number = size_t(&image - manifest.images.data());
  if (!image.isCompressed)
    return images[number];
  std::string code = decompress(images[number], image.size);
  if (code.empty())
    return invalid("image " + std::to_string(number) + " is no Zstandard frame of " +
                   std::to_string(image.size) + " bytes");
  return code;
}

// Checks all of the header that can be checked without the bytes behind it.
static Result<ejk_package_header> readHeader(std::string_view bytes) {
  ejk_package_header header;
  if (bytes.size() < sizeof(header))
    return invalid("it has " + std::to_string(bytes.size()) + " bytes, fewer than the " +
                   std::to_string(sizeof(header)) + " of the header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, EJK_PACKAGE_MAGIC, EJK_PACKAGE_MAGIC_SIZE) != 0)
    return invalid("it does not start with the magic bytes EJKPKG\\r\\n");
  if (header.version < EJK_OLDEST_PACKAGE_VERSION || header.version > EJK_PACKAGE_VERSION)
    return invalid("its format version is " + std::to_string(header.version) +
                   ", this runtime reads versions " + std::to_string(EJK_OLDEST_PACKAGE_VERSION) +
                   " to " + std::to_string(EJK_PACKAGE_VERSION) +
                   "; recompile it or update the runtime");
  if (header.header_size != sizeof(header))
    return invalid("its header size is " + std::to_string(header.header_size) + ", expected " +
                   std::to_string(sizeof(header)));
  if (std::any_of(std::begin(header.reserved), std::end(header.reserved),
                  [](uint8_t byte) { return byte != 0; }))
    return invalid("reserved header bytes are not zero");
  if (header.manifest_size > EJK_MAX_MANIFEST_SIZE || header.payload_size > EJK_MAX_PAYLOAD_SIZE)
    return invalid("its header promises " + promised(header) + ", more than the limits of " +
                   std::to_string(EJK_MAX_MANIFEST_SIZE) + " and " +
                   std::to_string(EJK_MAX_PAYLOAD_SIZE));
  return header;
}

static Error wrongSize(const ejk_package_header &header, uint64_t bodySize) {
  return invalid("its header promises " + promised(header) + ", but " + std::to_string(bodySize) +
                 " bytes follow it (truncated?)");
}

Result<Package> ejk::readPackage(std::string_view bytes) {
  Result<ejk_package_header> checked = readHeader(bytes);
  if (!checked)
    return checked.error();
  const ejk_package_header &header = *checked;
  std::string_view body = bytes.substr(sizeof(header));
  if (bodySize(header) != body.size())
    return wrongSize(header, body.size());
  if (XXH3_64bits(body.data(), body.size()) != header.checksum)
    return invalid("the checksum does not match; the file is damaged");

  Package package;
  package.manifestText = body.substr(0, header.manifest_size);
  Result<Manifest> manifest =
      parseManifest(package.manifestText, header.payload_size, header.version);
  if (!manifest)
    return invalid("manifest: " + manifest.error().message);
  package.manifest = std::move(*manifest);
  std::string_view payload = body.substr(header.manifest_size);
  for (const Image &image : package.manifest.images)
    package.images.emplace_back(payload.substr(image.offset, image.stored));
  return package;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
/// Closes its descriptor on every way out.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  const int number;
};
} // namespace

static Error cannotRead(const std::string &path) {
  int reason = errno;
  return {ErrorCode::Io, "cannot read " + inQuotes(path) + ": " + std::strerror(reason)};
}

// Appends until `bytes` has `wanted` bytes or the file ends; false with errno
// set on a failure. A promise of many bytes takes memory only as they arrive.
static bool readUpTo(int file, uint64_t wanted, std::string &bytes) {
  while (bytes.size() < wanted) {
    constexpr uint64_t least = 1 << 16;
    size_t old = bytes.size();
    size_t count = size_t(std::min(wanted - old, std::max<uint64_t>(old, least)));
    bytes.resize(old + count);
    ssize_t got = ::read(file, &bytes[old], count);
    int reason = errno;
    bytes.resize(old + size_t(std::max<ssize_t>(got, 0)));
    if (got == 0)
      return true;
    errno = reason;
    if (got < 0 && reason != EINTR)
      return false;
  }
  return true;
}

Result<std::string> ejk::readPackageFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    return cannotRead(path);
  std::string bytes;
  if (!readUpTo(file.number, sizeof(ejk_package_header), bytes))
    return cannotRead(path);
  auto named = [&](const Error &error) {
    return Error{error.code, inQuotes(path) + ": " + error.message};
  };
  Result<ejk_package_header> header = readHeader(bytes);
  if (!header)
    return named(header.error());
  uint64_t size = sizeof(*header) + bodySize(*header);
  if (S_ISREG(status.st_mode) && uint64_t(status.st_size) != size)
    return named(wrongSize(*header, uint64_t(status.st_size) - sizeof(*header)));
  // One byte more shows whether the file goes on.
  if (!readUpTo(file.number, size + 1, bytes))
    return cannotRead(path);
  if (bytes.size() != size)
    return named(wrongSize(*header, bytes.size() - sizeof(*header)));
  return bytes;
}
