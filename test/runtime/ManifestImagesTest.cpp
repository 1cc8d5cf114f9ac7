//===- ManifestImagesTest.cpp - what a manifest may not say of code -------===//

#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// The error for a manifest of `images`, each of 64 bytes where it says nothing else.
static std::string imagesError(json images, uint32_t version = EJK_PACKAGE_VERSION,
                               const char *arch = nullptr) {
  json manifest = glaManifest();
  manifest.erase("arch");
  if (arch)
    manifest["arch"] = arch;
  manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
  manifest["version"] = version;
  for (size_t i = 0; i < images.size(); ++i) {
    images[i]["offset"] = 64 * i;
    if (!images[i].contains("size"))
      images[i]["size"] = 64;
  }
  manifest["images"] = images;
  Result<Manifest> parsed = parseManifest(manifest.dump(), 64 * images.size(), version);
  return parsed ? "" : parsed.error().message;
}

static json cpu(json kernels, const char *arch = "x86-64-v3") {
  return {{"kind", "cpu"}, {"arch", arch}, {"kernels", std::move(kernels)}};
}

TEST(ManifestImages, KernelsOfACpu) {
  EXPECT_EQ(imagesError({cpu({{"prepare_a2", 0}, {"scan_a6", 16}})}), "");
  json none = {{"kind", "cpu"}, {"arch", "x86-64-v3"}};
  EXPECT_EQ(imagesError({none}), "images[0].kernels: is missing");
  json many;
  for (int i = 0; i <= EJK_MAX_KERNELS; ++i)
    many["k" + std::to_string(i)] = 0;
  for (json kernels : {json::array(), json(3), many})
    EXPECT_CONTAINS(imagesError({cpu(kernels)}),
                    "images[0].kernels: expected an object of at most");
  EXPECT_CONTAINS(imagesError({cpu({{"../x", 0}})}), "images[0].kernels: '../x' is not a name");
  EXPECT_CONTAINS(imagesError({cpu({{"x", 64}})}), "images[0].kernels.x");
  EXPECT_CONTAINS(imagesError({cpu({{"x", 3}})}), "images[0].kernels.x: expected a multiple of 4");
}

TEST(ManifestImages, AreOfOneKindForEachArchitecture) {
  json ptx = {{"kind", "ptx"}, {"arch", "sm_90"}}, bare = {{"kind", "ptx"}};
  EXPECT_EQ(imagesError({cpu({{"x", 0}}), ptx}), "");
  EXPECT_EQ(imagesError({cpu({{"x", 0}}, "sm_90"), ptx}),
            "images[1].arch: sm_90 is a CPU's in one image and a GPU's in another");
  // No architecture of a GPU stands before it.
  EXPECT_EQ(imagesError({cpu({{"x", 0}}), bare}), "images[1].arch: is missing");
  EXPECT_CONTAINS(imagesError({cpu({{"x", 0}}, "../x")}), "images[0].arch: '../x' is not a name");
}

TEST(ManifestImages, MayBeCompressed) {
  auto compressed = [](json stored, int64_t size) -> json {
    return {{"kind", "ptx"}, {"arch", "sm_90"}, {"compressed", stored}, {"size", size}};
  };
  json plain = {{"kind", "cubin"}, {"arch", "sm_90"}};
  EXPECT_EQ(imagesError({compressed(64, 1000), plain}), "");
  EXPECT_EQ(imagesError({compressed(64, EJK_MAX_PAYLOAD_SIZE)}), "");
  EXPECT_EQ(imagesError({compressed(64, int64_t(EJK_MAX_PAYLOAD_SIZE) + 1)}),
            "images[0].size: is more than 1073741824");
  for (json stored : {json(0), json(-1), json("64"), json(true)})
    EXPECT_CONTAINS(imagesError({compressed(stored, 1000)}),
                    "images[0].compressed: expected an integer");
  EXPECT_CONTAINS(imagesError({compressed(65, 1000)}), "lie outside the 64 bytes of the payload");
  EXPECT_CONTAINS(imagesError({compressed(63, 1000), plain}),
                  "images[1]: starts at byte 64 of the payload, expected 63");
  // Readers of earlier versions ignore the key.
  EXPECT_CONTAINS(imagesError({compressed(64, 1000)}, 4), "lie outside the 64 bytes of the payload");
}

TEST(ManifestImages, EarlierVersionsHaveNoneForCpus) {
  EXPECT_CONTAINS(imagesError({cpu({{"x", 0}})}, 3, "sm_90"), "unknown image kind 'cpu'");
}

TEST(ManifestImages, LettersOfArchitectures) {
  json ptx = {{"kind", "ptx"}, {"arch", "sm_100f"}};
  EXPECT_EQ(imagesError({ptx}), "");
  ptx["arch"] = "sm_100ff";
  EXPECT_CONTAINS(imagesError({ptx}), "not of the form sm_90");
}

static std::string patched(const char *pointer, json value, uint32_t version) {
  json manifest = glaManifest();
  manifest[json::json_pointer(pointer)] = std::move(value);
  manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
  manifest["version"] = version;
  manifest["images"] = {{{"kind", "ptx"}, {"offset", 0}, {"size", 1}}};
  Result<Manifest> parsed = parseManifest(manifest.dump(), 1, version);
  return parsed ? "" : parsed.error().message;
}

// Version 2 describes a matrix by rows and columns.
TEST(ManifestImages, TensorMapsOfVersion2) {
  auto map = [](json rows, json columns) {
    json argument = {{"tensor_map", {{"input", 0}}}, {"dtype", "bf16"}, {"box", {32, 64}}};
    if (!rows.is_null())
      argument["rows"] = rows;
    if (!columns.is_null())
      argument["columns"] = columns;
    return patched("/entries/0/launches/1/args/0", argument, 2);
  };
  EXPECT_EQ(map("T", 512), "");
  EXPECT_CONTAINS(map(nullptr, 512), "rows: is missing");
  EXPECT_CONTAINS(map("T", nullptr), "columns: is missing");
  EXPECT_CONTAINS(map("Z", 512), "rows: the symbol 'Z'");
  EXPECT_CONTAINS(map("T", "Z"), "columns: the symbol 'Z'");
}

TEST(ManifestImages, ArgumentsAreObjects) {
  for (uint32_t version : {1u, uint32_t(EJK_PACKAGE_VERSION)})
    EXPECT_CONTAINS(patched("/entries/0/launches/1/args/0", 3, version), "expected one of {input}");
}

TEST(ManifestImages, OutputsInPlace) {
  EXPECT_EQ(patched("/entries/0/outputs/1/in_place", false, EJK_PACKAGE_VERSION), "");
  EXPECT_EQ(patched("/entries/0/outputs/1/in_place", true, EJK_PACKAGE_VERSION), "");
  EXPECT_CONTAINS(patched("/entries/0/outputs/1/in_place", 1, EJK_PACKAGE_VERSION),
                  "in_place: expected true or false");
  EXPECT_CONTAINS(patched("/entries/0/outputs/0/in_place", true, EJK_PACKAGE_VERSION),
                  "in_place: needs 'may_alias'");
  EXPECT_EQ(patched("/entries/0/outputs/0/in_place", false, EJK_PACKAGE_VERSION), "");
}

// What a variant says is checked key by key.
TEST(ManifestImages, KeysOfVariants) {
  json entry = glaManifest()["entries"][0], variant;
  for (const char *key : {"workspace", "launches"}) {
    variant[key] = entry[key];
    entry.erase(key);
  }
  variant["schedule"] = "step";
  auto with = [&](const char *key, json value) {
    json changed = entry, spoiled = variant;
    if (key)
      spoiled[key] = std::move(value);
    else
      spoiled = std::move(value);
    changed["variants"] = {spoiled, variant};
    return patched("/entries/0", changed, EJK_PACKAGE_VERSION);
  };
  EXPECT_EQ(with("when", "T"), "");
  EXPECT_CONTAINS(with("arch", 90), "variants[0].arch: expected a string");
  EXPECT_CONTAINS(with("when", "Z"), "variants[0].when: the symbol 'Z'");
  EXPECT_CONTAINS(with("needs", {"?", 1}), "variants[0].needs");
  EXPECT_CONTAINS(with("workspace", 1), "variants[0].workspace: expected an array");
  EXPECT_CONTAINS(with("schedule", 1), "variants[0].schedule: expected a string");
  EXPECT_CONTAINS(with(nullptr, 5), "variants[0]");
}
