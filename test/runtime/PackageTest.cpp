//===- PackageTest.cpp - any bytes give a package or an error -------------===//

#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

static std::string loadError(const std::string &bytes) {
  std::string message;
  PackagePtr package = load(bytes, message);
  EXPECT_EQ(package == nullptr, !message.empty());
  return message;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

static std::string codeIn(const Package &package, Image::Kind kind) {
  Result<std::string> code = package.codeOf(*package.findImage(kind));
  return code ? *code : code.error().message;
}

TEST(Package, RoundTrip) {
  Result<Package> package = readPackage(pack(glaManifest()));
  ASSERT_TRUE(package) << package.error().message;
  EXPECT_EQ(codeIn(*package, Image::Kind::Ptx), "fake ptx");
  EXPECT_EQ(codeIn(*package, Image::Kind::Cubin), "fake cubin");
  EXPECT_EQ(package->manifest.producer, "test");
  EXPECT_EQ(package->manifest.architectures[0].number, 90);
  const Entry *entry = package->manifest.findEntry("gla");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->symbols, (std::vector<std::string>{"B", "T", "H", "Hkv", "N"}));
  EXPECT_EQ(entry->inputs[4].shapeText, "[N + 1]");
  EXPECT_EQ(entry->outputs[1].mayAlias, 5);
  EXPECT_EQ(entry->variants[0].launches[1].args.size(), 6u);
}

TEST(Package, EveryTruncationIsAnError) {
  std::string bytes = pack(glaManifest());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(loadError(bytes.substr(0, size)), "") << size;
  EXPECT_NE(loadError(bytes + "x"), "");
}

/// A package whose manifest is `text`, with a checksum that agrees.
static std::string packText(const std::string &text, const std::string &payload) {
  ejk_package_header header = {};
  std::memcpy(header.magic, EJK_PACKAGE_MAGIC, EJK_PACKAGE_MAGIC_SIZE);
  header.version = EJK_PACKAGE_VERSION;
  header.header_size = sizeof(header);
  header.manifest_size = text.size();
  header.payload_size = payload.size();
  std::string body = text + payload;
  header.checksum = XXH3_64bits(body.data(), body.size());
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + body;
}

TEST(Package, NothingFollowsTheManifest) {
  std::string good = pack(copyManifest("copy"));
  ejk_package_header header;
  std::memcpy(&header, good.data(), sizeof(header));
  std::string text = good.substr(sizeof(header), header.manifest_size);
  std::string payload = good.substr(sizeof(header) + header.manifest_size);
  EXPECT_EQ(loadError(packText(text, payload)), "");
  EXPECT_EQ(loadError(packText(text + " \n", payload)), "");
  for (std::string more : {std::string("x"), std::string("{}"), std::string(1, '\0'),
                           std::string("\0{}", 3), std::string(" \0 ", 3)})
    EXPECT_CONTAINS(loadError(packText(text + more, payload)), "it is not valid JSON at byte");
  // In the middle, too, and in a string.
  std::string cut = text;
  cut.insert(1, 1, '\0');
  EXPECT_CONTAINS(loadError(packText(cut, payload)), "it is not valid JSON at byte 2");
}

TEST(Package, EveryFlippedByteIsAnError) {
  std::string bytes = pack(glaManifest());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (char bit : {char(1), char(0x80)}) {
      std::string damaged = bytes;
      damaged[i] ^= bit;
      EXPECT_NE(loadError(damaged), "") << "byte " << i;
    }
}

TEST(Package, HeaderErrorsSayWhatIsWrong) {
  std::string good = pack(glaManifest());
  auto damaged = [&](size_t offset, char value) {
    std::string bytes = good;
    bytes[offset] = value;
    return loadError(bytes);
  };
  EXPECT_CONTAINS(loadError(""), "0 bytes, fewer than the 64");
  EXPECT_CONTAINS(damaged(0, 'X'), "magic");
  EXPECT_CONTAINS(damaged(8, 9), "format version is 9, this runtime reads");
  EXPECT_CONTAINS(damaged(12, 0), "header size");
  EXPECT_CONTAINS(damaged(63, 1), "reserved");
  EXPECT_CONTAINS(damaged(64, 'x'), "checksum");
  EXPECT_CONTAINS(loadError(good.substr(0, good.size() - 1)), "truncated");
  // Sizes whose sum wraps around to the right one.
  std::string wrapped = good;
  std::memset(&wrapped[16], 0xff, 8);
  EXPECT_CONTAINS(loadError(wrapped), "more than the limits of 16777216 and 1073741824");
}

// A package that says so in both places is no package of the oldest version.
TEST(Package, VersionsBeforeTheOldestAreRefused) {
  std::string good = pack(copyManifest("copy"));
  ejk_package_header header;
  std::memcpy(&header, good.data(), sizeof(header));
  json manifest = json::parse(good.substr(sizeof(header), header.manifest_size));
  manifest["version"] = EJK_OLDEST_PACKAGE_VERSION - 1;
  std::string bytes = packText(manifest.dump(), good.substr(sizeof(header) + header.manifest_size));
  bytes[8] = EJK_OLDEST_PACKAGE_VERSION - 1;
  EXPECT_CONTAINS(loadError(bytes), "format version is 0, this runtime reads versions 1 to");
}

// Damage that the checksum does not catch, because it was computed afterwards.
TEST(Package, RandomManifestsNeverCrash) {
  std::string good = pack(glaManifest());
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    int edits = 1 + int(random() % 4);
    for (int e = 0; e < edits; ++e) {
      static const char interesting[] = "[]{}\",:0-9e.\\n\xff";
      bytes[64 + random() % (bytes.size() - 64)] =
          interesting[random() % (sizeof(interesting) - 1)];
    }
    uint64_t checksum = XXH3_64bits(bytes.data() + 64, bytes.size() - 64);
    std::memcpy(&bytes[32], &checksum, 8);
    loadError(bytes);
  }
}

TEST(Package, AbsurdNestingIsAnError) {
  for (const char *open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 1000000; ++i)
      text += open;
    Result<Manifest> manifest = parseManifest(text, 0);
    ASSERT_FALSE(manifest);
    EXPECT_CONTAINS(manifest.error().message, "nested more than 64 deep");
  }
}

static std::string fileError(const std::string &path) {
  ejk_package *package = nullptr;
  std::string message = take(ejk_package_load_file(path.c_str(), &package));
  ejk_package_destroy(package);
  EXPECT_EQ(package == nullptr, !message.empty());
  return message;
}

// Nothing is read, nor memory taken, on a header's word alone.
TEST(Package, FilesWithoutEnd) {
  EXPECT_CONTAINS(fileError("/dev/zero"),
                  "'/dev/zero': not a usable ejk package: it does not start");
  EXPECT_CONTAINS(fileError("/dev/null"), "it has 0 bytes");
  EXPECT_CONTAINS(fileError(::testing::TempDir()), "Is a directory");
  EXPECT_CONTAINS(fileError("/nonexistent/\033[1m"),
                  "cannot read '/nonexistent/\\x1b[1m': No such");
}

TEST(Package, SizesThatAHeaderPromises) {
  std::string path = ::testing::TempDir() + "ejk_package_sizes.ejk", good = pack(glaManifest());
  auto promising = [&](uint64_t manifest, uint64_t payload) {
    std::string bytes = good;
    std::memcpy(&bytes[16], &manifest, 8);
    std::memcpy(&bytes[24], &payload, 8);
    std::ofstream(path, std::ios::binary) << bytes;
    return fileError(path);
  };
  const char *limits = "more than the limits of 16777216 and 1073741824";
  EXPECT_CONTAINS(promising(EJK_MAX_MANIFEST_SIZE + 1, 8), limits);
  EXPECT_CONTAINS(promising(8, EJK_MAX_PAYLOAD_SIZE + 1), limits);
  EXPECT_CONTAINS(promising(UINT64_MAX, UINT64_MAX), limits);
  EXPECT_CONTAINS(promising(8, EJK_MAX_PAYLOAD_SIZE), "1073741824 of payload, but ");
  std::remove(path.c_str());
}

// A pipe has no size to compare with.
TEST(Package, LoadsFromAPipe) {
  std::string path = ::testing::TempDir() + "ejk_package_pipe", good = pack(glaManifest());
  auto through = [&](const std::string &bytes) {
    std::remove(path.c_str());
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    std::thread writer([&] { std::ofstream(path, std::ios::binary) << bytes; });
    std::string message = fileError(path);
    writer.join();
    std::remove(path.c_str());
    return message;
  };
  EXPECT_EQ(through(good), "");
  EXPECT_CONTAINS(through(good.substr(0, good.size() - 1)), "truncated");
  EXPECT_CONTAINS(through(good + "x"), "truncated");
  std::string endless = good;
  std::memset(&endless[24], 0x3f, 3); // some 4 MB that never come
  EXPECT_CONTAINS(through(endless), "of payload, but ");
}

TEST(Package, CompressedImages) {
  std::string code;
  for (int i = 0; i < 100000; ++i)
    code += "add.f32 %f" + std::to_string(i % 97) + ";\n";
  std::string bytes = serializePackage(
      glaManifest(), {{Image::Kind::Ptx, code}, {Image::Kind::Cubin, "too short"}});
  EXPECT_LT(bytes.size(), code.size() / 10);
  Result<Package> package = readPackage(bytes);
  ASSERT_TRUE(package) << package.error().message;
  EXPECT_EQ(codeIn(*package, Image::Kind::Ptx), code);
  EXPECT_EQ(codeIn(*package, Image::Kind::Cubin), "too short");
  EXPECT_FALSE(package->manifest.images[1].isCompressed);

  // Frames that are cut off, go on, hold more or less than promised, or are none.
  std::string frame = package->images[0];
  auto decoded = [&](std::string stored, uint64_t size) {
    Package bad = *package;
    bad.images[0] = std::move(stored);
    bad.manifest.images[0].size = size;
    return codeIn(bad, Image::Kind::Ptx);
  };
  EXPECT_EQ(decoded(frame, code.size()), code);
  std::string other = frame;
  other[0] ^= 1;
  for (const std::string &stored :
       {frame.substr(0, frame.size() - 1), frame.substr(0, 3), frame + "x", frame + frame, other})
    EXPECT_EQ(decoded(stored, code.size()), "not a usable ejk package: image 0 is no Zstandard "
                                            "frame of " + std::to_string(code.size()) + " bytes");
  for (uint64_t size : {uint64_t(1), code.size() - 1, code.size() + 1, uint64_t(1) << 30})
    EXPECT_CONTAINS(decoded(frame, size), "is no Zstandard frame of");
}

// One package of each format version that there was; see data/README.md.
TEST(Package, EarlierFormatVersions) {
  for (int version = EJK_OLDEST_PACKAGE_VERSION; version < EJK_PACKAGE_VERSION; ++version) {
    std::string path = EJK_TEST_DATA "/format-" + std::to_string(version) + ".ejk";
    Result<std::string> bytes = readPackageFile(path);
    ASSERT_TRUE(bytes) << bytes.error().message;
    Result<Package> package = readPackage(*bytes);
    ASSERT_TRUE(package) << version << ": " << package.error().message;
    EXPECT_EQ(fileError(path), "");
    EXPECT_EQ(codeIn(*package, Image::Kind::Ptx), "fake ptx");
    const Launch &launch = package->manifest.entries[0].variants[0].launches[0];
    ASSERT_EQ(launch.tensorMaps.size(), version == 1 ? 0u : 1u);
    if (version == 1)
      continue;
    const TensorMap &map = launch.tensorMaps[0];
    ASSERT_EQ(map.sizes.size(), 2u);
    EXPECT_EQ(map.sizes[0].text(), "R");
    EXPECT_EQ(map.sizes[1].text(), "32");
    ASSERT_EQ(map.strides.size(), 1u);
    EXPECT_EQ(map.strides[0].text(), "32");
    EXPECT_EQ(map.box, (std::vector<unsigned>{8, 32}));
  }
}

// A later version's words mean nothing in an earlier one.
TEST(Package, VersionsDoNotMix) {
  auto asVersion = [](uint32_t version, json manifest) {
    manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
    manifest["version"] = version;
    manifest["images"] = {{{"kind", "ptx"}, {"offset", 0}, {"size", 8}}};
    Result<Manifest> parsed = parseManifest(manifest.dump(), 8, version);
    return parsed ? "" : parsed.error().message;
  };
  json boxes = boxesManifest("copy"), matrix = boxes;
  json &map = matrix["entries"][0]["launches"][0]["args"][0];
  map.erase("sizes");
  map.erase("strides");
  map["rows"] = "R";
  map["columns"] = 32;
  EXPECT_EQ(asVersion(3, boxes), "");
  EXPECT_EQ(asVersion(2, matrix), "");
  EXPECT_CONTAINS(asVersion(1, matrix), "expected one of");
  EXPECT_CONTAINS(asVersion(2, boxes), "args[0].rows: is missing");
  EXPECT_CONTAINS(asVersion(3, matrix), "args[0].sizes: is missing");
  map["box"] = {1, 8, 32};
  EXPECT_CONTAINS(asVersion(2, matrix), "args[0].box: expected 2 integers");
  map["box"] = {8, 32};
  map["more"] = 1;
  EXPECT_CONTAINS(asVersion(2, matrix), "expected tensor_map, dtype, rows, columns and box alone");
  map.erase("columns");
  EXPECT_CONTAINS(asVersion(2, matrix), "columns: is missing");
  boxes["version"] = 3;
  std::string inconsistent = pack(boxes);
  inconsistent[8] = 2; // the manifest still says 3
  EXPECT_CONTAINS(loadError(inconsistent), "manifest: version: expected an integer from 2 to 2");
}

TEST(Package, LoadsFromAFile) {
  std::string path = ::testing::TempDir() + "ejk_package_test.ejk";
  std::string bytes = pack(glaManifest());
  std::ofstream(path, std::ios::binary) << bytes;
  ejk_package *package = nullptr;
  EXPECT_EQ(take(ejk_package_load_file(path.c_str(), &package)), "");
  ejk_package_destroy(package);
  ejk_error *error = ejk_package_load_file("/nonexistent.ejk", &package);
  EXPECT_EQ(ejk_error_get_code(error), EJK_ERROR_IO);
  EXPECT_CONTAINS(take(error), "/nonexistent.ejk");
  std::ofstream(path, std::ios::binary) << "no package";
  EXPECT_CONTAINS(take(ejk_package_load_file(path.c_str(), &package)), path);
  std::remove(path.c_str());
}
