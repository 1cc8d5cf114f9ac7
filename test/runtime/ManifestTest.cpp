//===- ManifestTest.cpp - what a manifest may not say ---------------------===//

#include "TestPackage.h"

#include <gtest/gtest.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

// The error for glaManifest with one value replaced.
static std::string patched(const char *pointer, json value) {
  json manifest = glaManifest();
  manifest[json::json_pointer(pointer)] = std::move(value);
  Result<Package> package = readPackage(pack(manifest));
  return package ? "" : package.error().message;
}

static std::string removed(const char *parent, const char *key) {
  json manifest = glaManifest();
  manifest[json::json_pointer(parent)].erase(key);
  Result<Package> package = readPackage(pack(manifest));
  return package ? "" : package.error().message;
}

static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(Manifest, BadValuesNameTheirPlace) {
  struct {
    const char *pointer;
    json value;
    const char *message;
  } cases[] = {
      {"/arch", "compute_90", "arch: 'compute_90' is not of the form sm_90"},
      {"/arch", "sm_", "not of the form"},
      {"/arch", "sm_90x", "not of the form"},
      {"/arch", 90, "arch: expected a string"},
      {"/arch_specific", 1, "arch_specific: expected a boolean"},
      {"/entries", json::array(), "entries: is empty"},
      {"/entries", json::object(), "entries: expected an array"},
      {"/entries/0", 3, "entries[0]: expected an object"},
      {"/entries/0/inputs/0/dtype", "f8", "unknown element type 'f8'"},
      {"/entries/0/inputs/0/align", 24, "not a power of two"},
      {"/entries/0/inputs/0/align", 0, "align: expected an integer from 1"},
      {"/entries/0/inputs/0/shape/3", -1.5, "inputs[0].shape[3]"},
      {"/entries/0/inputs/0/shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 1}),
       "more than the limit of 8"},
      {"/entries/0/inputs/4/shape/0", json::array({"*", "M", 0}), "'M' is not bound"},
      {"/entries/0/inputs/4/dtype", "f32", "cu_seqlens must be a vector"},
      {"/entries/0/outputs/0/shape/1", "L", "'L' is not bound"},
      {"/entries/0/outputs/1/may_alias", 6, "may_alias"},
      {"/entries/0/constraints/0/expr", json::array({"mod", "H"}), "constraints[0].expr"},
      {"/entries/0/workspace/0/bytes", "x", "workspace[0].bytes"},
      {"/entries/0/launches/0/block", json::array({1024, 2, 1}), "more than 1024 threads"},
      {"/entries/0/launches/0/block", json::array({0, 1, 1}), "block[0]"},
      {"/entries/0/launches/0/shared_bytes", -1, "shared_bytes"},
      {"/entries/0/launches/0/grid", "Z", "launches[0].grid"},
      {"/entries/0/launches/0/args/0", {{"input", 6}}, "args[0]"},
      {"/entries/0/launches/0/args/0", {{"output", -1}}, "args[0]"},
      {"/entries/0/launches/0/args/0", {{"workspace", 2}}, "args[0]"},
      {"/entries/0/launches/0/args/0", {{"f32", 2}}, "kind of argument 'f32'"},
      {"/entries/0/launches/0/args/0", {{"input", 0}, {"output", 0}}, "expected one of"},
      {"/entries/0/name", std::string("a\0b", 3), "NUL"},
  };
  for (const auto &c : cases) {
    std::string message = patched(c.pointer, c.value);
    EXPECT_TRUE(contains(message, c.message)) << c.pointer << " = " << c.value << ": " << message;
  }
}

TEST(Manifest, MissingKeysAreNamed) {
  EXPECT_TRUE(contains(removed("", "producer"), "producer: is missing"));
  EXPECT_TRUE(contains(removed("/entries/0", "launches"), "entries[0].launches: is missing"));
  EXPECT_TRUE(contains(removed("/entries/0/inputs/4", "total"), "inputs[4].total: is missing"));
  EXPECT_TRUE(
      contains(removed("/entries/0/launches/1", "kernel"), "launches[1].kernel: is missing"));
  EXPECT_EQ(removed("/entries/0", "constraints"), "");
}

TEST(Manifest, UnknownKeysAreIgnored) {
  EXPECT_EQ(patched("/entries/0/schedule", "chunk"), "");
  EXPECT_EQ(patched("/entries/0/launches/0/registers", 128), "");
}

TEST(Manifest, ImagesLieInThePayload) {
  for (json image : {json{{"kind", "ptx"}, {"offset", 5}, {"size", 6}},
                     json{{"kind", "ptx"}, {"offset", 11}, {"size", 1}},
                     json{{"kind", "ptx"}, {"offset", 1}, {"size", INT64_MAX}}}) {
    json manifest = glaManifest();
    manifest["format"] = "ejk-package";
    manifest["version"] = 1;
    manifest["images"] = json::array({image});
    Result<Manifest> parsed = parseManifest(manifest.dump(), 10);
    ASSERT_FALSE(parsed);
    EXPECT_TRUE(contains(parsed.error().message, "outside the 10 bytes"));
  }
}

TEST(Manifest, TwoEntriesOfOneName) {
  json manifest = glaManifest();
  manifest["entries"].push_back(manifest["entries"][0]);
  Result<Package> package = readPackage(pack(manifest));
  ASSERT_FALSE(package);
  EXPECT_TRUE(contains(package.error().message, "second entry named 'gla'"));
}

TEST(Manifest, ArchitectureLetterMeansThatOneOnly) {
  json manifest = glaManifest();
  manifest["arch"] = "sm_90a";
  Result<Package> package = readPackage(pack(manifest));
  ASSERT_TRUE(package);
  EXPECT_EQ(package->manifest.archNumber, 90);
  EXPECT_TRUE(package->manifest.archSpecific);
}
