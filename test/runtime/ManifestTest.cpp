//===- ManifestTest.cpp - what a manifest may not say ---------------------===//

#include "ManifestErrors.h"
#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

TEST(Manifest, BadValuesNameTheirPlace) {
  struct {
    const char *pointer;
    json value;
    const char *message;
  } cases[] = {
      {"/arch", "compute_90", "arch: 'compute_90' is not of the form sm_90"},
      {"/arch", "sm_", "not of the form"},
      {"/arch", "sm_90x", "not of the form"},
      {"/arch", "sm_9", "not of the form"},
      {"/arch", "sm_10000", "not of the form"},
      {"/arch", "sm_90af", "not of the form"},
      {"", 3, "the top level: expected an object"},
      {"/entries/0/constraints", json::object(), "constraints: expected an array"},
      {"/entries/0/constraints/0/equals", 0.5, "constraints[0].equals: expected an integer"},
      {"/entries/0/constraints/0/message", 1, "constraints[0].message: expected a string"},
      {"/entries/0/workspace", json::object(), "workspace: expected an array"},
      {"/entries/0/name", 1, "entries[0].name: expected a string"},
      {"/producer", 1, "producer: expected a string"},
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
      {"/entries/0/outputs/1/in_place", 1, "outputs[1].in_place: expected true or false"},
      {"/entries/0/outputs/0/in_place", true, "outputs[0].in_place: needs 'may_alias'"},
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
      {"/entries/0/name", std::string("a\0b", 3), "entries[0].name: 'a\\x00b' is not a name"},
  };
  for (const auto &c : cases) {
    std::string message = patched(c.pointer, c.value);
    EXPECT_TRUE(contains(message, c.message)) << c.pointer << " = " << c.value << ": " << message;
  }
}

// Names become file names and reach terminals.
TEST(Manifest, NamesAndTextAreChecked) {
  const char *names[] = {"/entries/0/name",
                         "/entries/0/inputs/0/name",
                         "/entries/0/outputs/0/name",
                         "/entries/0/workspace/0/name",
                         "/entries/0/launches/0/kernel",
                         "/entries/0/inputs/0/role",
                         "/entries/0/vjp_of",
                         "/entries/0/fwd_of"};
  for (const char *place : names)
    for (const char *bad : {"../../x", "/tmp/x", "", "a\033[2Jb", ".."})
      EXPECT_TRUE(contains(patched(place, bad), "is not a name: a name ")) << place << bad;
  for (const char *place : {"/producer", "/entries/0/constraints/0/message"})
    EXPECT_TRUE(
        contains(patched(place, "\033]0;x\a"), "'\\x1b]0;x\\x07' is not allowed: text must"))
        << place;
  // A symbol is a name, too.
  EXPECT_TRUE(
      contains(patched("/entries/0/inputs/0/shape/1", "\033[1m"), "'\\x1b[1m' is not bound"));
  // What an error quotes is escaped.
  for (const char *place : {"/arch", "/entries/0/inputs/0/dtype"})
    EXPECT_TRUE(contains(patched(place, "\033[1m"), "'\\x1b[1m'")) << place;
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/args/0", {{"\033", 0}}), "'\\x1b'"));
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/grid", {"\033", 1, 1}), "'\\x1b'"));
}

TEST(Manifest, TensorsOfOneName) {
  EXPECT_TRUE(contains(patched("/entries/0/inputs/1/name", "q"),
                       "entries[0].inputs[1]: a second input named 'q'"));
  EXPECT_TRUE(contains(patched("/entries/0/outputs/1/name", "o"),
                       "entries[0].outputs[1]: a second output named 'o'"));
  // A result may be named as an input.
  EXPECT_EQ(patched("/entries/0/outputs/0/name", "q"), "");
}

TEST(Manifest, ElementsAreAligned) {
  EXPECT_TRUE(contains(patched("/entries/0/inputs/4/align", 1),
                       "inputs[4].align: an element of i32 needs at least 4"));
  EXPECT_EQ(patched("/entries/0/inputs/0/align", 2), "");
  EXPECT_NE(patched("/entries/0/inputs/0/align", 1), "");
}

TEST(Manifest, KeysThatOccurTwice) {
  std::string text = R"({"format": "ejk-package", "version": 3, "version": 3})";
  Result<Manifest> parsed = parseManifest(text, 0);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "the key 'version' occurs twice in one object");
}

// Each of these values would take some hundred bytes of memory.
TEST(Manifest, MoreValuesThanAManifestHas) {
  std::string text = "[";
  for (int i = 0; i < 300000; ++i)
    text += "{},";
  Result<Manifest> parsed = parseManifest(text, 0);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "it has more than 262144 values");
}

// The error when the images lie so in a payload of ten bytes.
static std::string imagesError(json images) {
  json manifest = glaManifest();
  manifest["format"] = "ejk-package";
  manifest["version"] = EJK_PACKAGE_VERSION;
  manifest["images"] = std::move(images);
  Result<Manifest> parsed = parseManifest(manifest.dump(), 10);
  return parsed ? "" : parsed.error().message;
}

static json image(const char *kind, int64_t offset, int64_t size) {
  return {{"kind", kind}, {"offset", offset}, {"size", size}};
}

// Sixteen images of one payload would be sixteen copies of it.
TEST(Manifest, ImagesLieEndToEnd) {
  EXPECT_EQ(imagesError({image("ptx", 0, 4), image("cubin", 4, 6)}), "");
  EXPECT_TRUE(contains(imagesError({image("ptx", 0, 10), image("cubin", 0, 10)}),
                       "images[1]: starts at byte 0 of the payload, expected 10, where the one "
                       "before it ends"));
  EXPECT_TRUE(contains(imagesError({image("ptx", 0, 4), image("cubin", 5, 5)}),
                       "images[1]: starts at byte 5 of the payload, expected 4"));
  EXPECT_TRUE(contains(imagesError({image("ptx", 0, 4)}),
                       "images: end at byte 4 of the payload, which has 10 bytes"));
  EXPECT_TRUE(contains(imagesError({image("obj", 0, 10)}), "unknown image kind 'obj'"));
  EXPECT_TRUE(contains(imagesError({image("ptx", 0, 0)}), "images[0].size: expected an integer"));
  EXPECT_TRUE(contains(imagesError(json::array()), "images: is empty"));
}

TEST(Manifest, ArgumentsOfAnEntryAreLimited) {
  auto withLaunches = [](int numLaunches, int numArgs) {
    json args = json::array();
    for (int i = 0; i < numArgs; ++i)
      args.push_back({{"i64", 1}});
    json manifest = glaManifest();
    json &launches = manifest["entries"][0]["launches"], launch = launches[0];
    launch["args"] = args;
    launches = json::array();
    for (int i = 0; i < numLaunches; ++i)
      launches.push_back(launch);
    return readPackage(pack(manifest));
  };
  EXPECT_TRUE(withLaunches(8, EJK_MAX_LAUNCH_ARGUMENTS));
  Result<Package> package = withLaunches(9, EJK_MAX_LAUNCH_ARGUMENTS);
  ASSERT_FALSE(package);
  EXPECT_TRUE(contains(package.error().message, "launches: have too many arguments together"));
  package = withLaunches(1, EJK_MAX_LAUNCH_ARGUMENTS + 1);
  ASSERT_FALSE(package);
  EXPECT_TRUE(contains(package.error().message, "launches[0].args"));
  EXPECT_TRUE(withLaunches(EJK_MAX_LAUNCHES, 1));
  package = withLaunches(EJK_MAX_LAUNCHES + 1, 1);
  ASSERT_FALSE(package);
  EXPECT_TRUE(contains(package.error().message, "launches"));
}

TEST(Manifest, SymbolsOfAnEntryAreLimited) {
  json manifest = glaManifest();
  json &inputs = manifest["entries"][0]["inputs"];
  for (int i = 0; i < EJK_MAX_SYMBOLS / 8; ++i) {
    json more = inputs[0];
    more["name"] = "x" + std::to_string(i);
    for (int d = 0; d < 8; ++d)
      more["shape"][d] = "S" + std::to_string(8 * i + d);
    inputs.push_back(more);
  }
  Result<Package> package = readPackage(pack(manifest));
  ASSERT_FALSE(package);
  EXPECT_TRUE(contains(package.error().message, "is not bound by any input's shape"));
}

TEST(Manifest, DimensionsThatBindASymbol) {
  auto shape = [](json dim) { return patched("/entries/0/inputs/4/shape/0", std::move(dim)); };
  EXPECT_EQ(shape({"+", 1, "N"}), "");
  EXPECT_EQ(shape({"*", 2, "N"}), "");
  EXPECT_NE(shape({1, 2, "N"}), "");
  EXPECT_NE(shape({"+", "N", "M"}), "");
  EXPECT_NE(shape({"+", "N"}), "");
  // Constants that determine no size bind nothing.
  for (json dim : {json{"*", "M", 0}, json{"*", "M", -2}, json{"+", "M", (int64_t(1) << 31) + 1}})
    EXPECT_TRUE(contains(shape(dim), "the symbol 'M' is not bound by any input's shape")) << dim;
  EXPECT_EQ(shape({"min", "N", 1}), ""); // h0 binds N, and this is checked
  EXPECT_EQ(patched("/entries/0/outputs/1/may_alias", nullptr), "");
}

TEST(Manifest, ExpressionsAreNotEndless) {
  json deep = "T", wide = "T";
  for (int i = 0; i < 40; ++i)
    deep = {"+", deep, 1};
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/grid", deep), "nested more than 32 deep"));
  for (int i = 0; i < 10; ++i)
    wide = {"+", wide, wide};
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/grid", wide), "the expression is too long"));
}

TEST(Manifest, MissingKeysAreNamed) {
  EXPECT_TRUE(contains(removed("", "producer"), "producer: is missing"));
  EXPECT_TRUE(contains(removed("/entries/0", "launches"), "entries[0].launches: is missing"));
  EXPECT_TRUE(contains(removed("/entries/0/inputs/4", "total"), "inputs[4].total: is missing"));
  EXPECT_TRUE(
      contains(patched("/entries/0/inputs/4/role", "state_index"), "inputs[4].states: is missing"));
  EXPECT_TRUE(
      contains(removed("/entries/0/launches/1", "kernel"), "launches[1].kernel: is missing"));
  EXPECT_EQ(removed("/entries/0", "constraints"), "");
}

// What an entry is for is in its manifest; a name's end says nothing.
TEST(Manifest, EntriesSayWhatTheyAreFor) {
  json manifest = glaManifest();
  manifest["entries"][0]["vjp_of"] = "f";
  manifest["entries"][0]["fwd_of"] = "h";
  Package package = std::move(*readPackage(pack(manifest)));
  EXPECT_EQ(package.manifest.entries[0].derivativeOf, "f");
  EXPECT_EQ(package.manifest.entries[0].forwardOf, "h");
  package = std::move(*readPackage(pack(glaManifest())));
  EXPECT_EQ(package.manifest.entries[0].derivativeOf, "");
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
    manifest["version"] = EJK_PACKAGE_VERSION;
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
  EXPECT_EQ(package->manifest.architectures[0].number, 90);
  EXPECT_TRUE(package->manifest.architectures[0].isSpecific);
}

// Each architecture's last variant takes what no other does.
TEST(Manifest, Variants) {
  json entry = glaManifest()["entries"][0], variant;
  for (const char *key : {"workspace", "launches"}) {
    variant[key] = entry[key];
    entry.erase(key);
  }
  variant["schedule"] = "step";
  entry["variants"] = {variant, variant};
  entry["variants"][0]["when"] = {"or", {">=", "T", 64}, {"=", "device.multiprocessors", 132}};
  EXPECT_EQ(patched("/entries/0", entry), "");
  auto withVariant = [&](const char *key, json value) {
    json changed = entry;
    changed["variants"][1][key] = std::move(value);
    return patched("/entries/0", changed);
  };
  EXPECT_TRUE(contains(withVariant("when", {"=", "T", 1}),
                       "variants: the last one for sm_90, 'step', has a condition"));
  EXPECT_TRUE(contains(withVariant("needs", 1), "has a condition"));
  EXPECT_TRUE(contains(withVariant("needs", "Z"), "variants[1].needs: the symbol 'Z'"));
  EXPECT_TRUE(contains(withVariant("arch", "sm_80"),
                       "variants[1].arch: no image is compiled for 'sm_80'; there are images for "
                       "sm_90"));
  EXPECT_TRUE(contains(withVariant("schedule", "../x"), "is not a name"));
  EXPECT_TRUE(
      contains(withVariant("launches", nullptr), "variants[1].launches: expected an array"));
  json both = entry;
  both["launches"] = variant["launches"];
  EXPECT_TRUE(contains(patched("/entries/0", both), "launches: stands beside 'variants'"));
  json none = entry;
  none["variants"] = json::array();
  EXPECT_TRUE(contains(patched("/entries/0", none), "variants: there is none for sm_90"));
  json many = entry;
  many["variants"] = json(65, variant);
  EXPECT_TRUE(contains(patched("/entries/0", many), "more than the limit of 64"));
}

// Facts of the device are for conditions alone, and no symbol takes their names.
TEST(Manifest, DeviceFacts) {
  EXPECT_EQ(patched("/entries/0/launches/0/when", {"<", "device.multiprocessors", "T"}), "");
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/when", "device.name"),
                       "launches[0].when: the symbol 'device.name'"));
  EXPECT_TRUE(contains(patched("/entries/0/launches/0/grid", "device.multiprocessors"),
                       "launches[0].grid: the symbol 'device.multiprocessors'"));
  EXPECT_TRUE(contains(patched("/entries/0/inputs/4/shape", {"device.arch"}),
                       "the symbol 'device.arch' is not bound"));
}

TEST(Manifest, ImagesOfSeveralArchitectures) {
  auto problem = [](json images, const char *arch) {
    json manifest = glaManifest();
    manifest.erase("arch");
    if (arch)
      manifest["arch"] = arch;
    manifest["format"] = EJK_PACKAGE_FORMAT_NAME;
    manifest["version"] = EJK_PACKAGE_VERSION;
    for (size_t i = 0; i < images.size(); ++i) {
      images[i]["kind"] = "ptx";
      images[i]["offset"] = i;
      images[i]["size"] = 1;
    }
    manifest["images"] = images;
    Result<Manifest> parsed = parseManifest(manifest.dump(), images.size());
    return parsed ? parsed->archText : parsed.error().message;
  };
  json own = {{"arch", "sm_90a"}}, none = json::object();
  EXPECT_EQ(problem({own, {{"arch", "sm_80"}}, own}, nullptr), "sm_90a, sm_80");
  EXPECT_EQ(problem({own, none}, "sm_80"), "sm_80, sm_90a");
  EXPECT_EQ(problem({own}, "sm_80"), "arch: no image is compiled for sm_80");
  EXPECT_EQ(problem({none}, nullptr), "images[0].arch: is missing");
  EXPECT_EQ(problem({{{"arch", "x"}}}, nullptr), "images[0].arch: 'x' is not of the form sm_90");
  EXPECT_EQ(problem({{{"arch", "sm_90"}}, {{"arch", "sm_90"}, {"arch_specific", true}}}, nullptr),
            "images[1].arch_specific: differs from what another image of sm_90 says");
}
