//===- PackageTest.cpp - any bytes give a package or an error -------------===//

#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace ejk;
using namespace ejk::test;

static std::string loadError(const std::string &bytes) {
  std::string message;
  PackagePtr package = load(bytes, message);
  EXPECT_EQ(package == nullptr, !message.empty());
  return message;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

TEST(Package, RoundTrip) {
  Result<Package> package = readPackage(pack(glaManifest()));
  ASSERT_TRUE(package) << package.error().message;
  EXPECT_EQ(*package->findImage(Image::Kind::Ptx), "fake ptx");
  EXPECT_EQ(*package->findImage(Image::Kind::Cubin), "fake cubin");
  EXPECT_EQ(package->manifest.producer, "test");
  EXPECT_EQ(package->manifest.archNumber, 90);
  const Entry *entry = package->manifest.findEntry("gla");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->symbols, (std::vector<std::string>{"B", "T", "H", "Hkv", "N"}));
  EXPECT_EQ(entry->inputs[4].shapeText, "[N + 1]");
  EXPECT_EQ(entry->outputs[1].mayAlias, 5);
  EXPECT_EQ(entry->launches[1].args.size(), 6u);
}

TEST(Package, EveryTruncationIsAnError) {
  std::string bytes = pack(glaManifest());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(loadError(bytes.substr(0, size)), "") << size;
  EXPECT_NE(loadError(bytes + "x"), "");
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
  EXPECT_CONTAINS(loadError(wrapped), "truncated");
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
    EXPECT_CONTAINS(manifest.error().message, "nested too deep");
  }
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
