//===- ManifestTensorMapsTest.cpp - what a manifest may say of tensor maps ===//

#include "ManifestErrors.h"
#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

// q with the rows of a head together.
static json tensorMap() {
  return json::parse(R"({"tensor_map": {"input": 0}, "dtype": "bf16",
    "sizes": ["B", "H", "T", 128],
    "strides": [["*", ["*", "T", "H"], 128], 128, ["*", "H", 128]], "box": [1, 2, 32, 64]})");
}

// The states as a vector.
static json vectorMap() {
  return json::parse(R"({"tensor_map": {"workspace": 1}, "dtype": "f32",
    "sizes": ["N"], "strides": [], "box": [32]})");
}

static std::string withTensorMap(const json &argument) {
  return patched("/entries/0/launches/0/args/0", argument);
}

static std::vector<std::string> texts(const std::vector<Expr> &exprs) {
  std::vector<std::string> result;
  for (const Expr &expr : exprs)
    result.push_back(expr.text());
  return result;
}

TEST(ManifestTensorMaps, AreRead) {
  json manifest = glaManifest();
  json &args = manifest["entries"][0]["launches"][1]["args"];
  args[0] = tensorMap();
  args[1] = json::parse(R"({"tensor_map": {"output": 1}, "dtype": "f32",
    "sizes": ["N", "H", 2, 64, 64], "strides": [32768, 8192, 4096, 64],
    "box": [1, 1, 2, 256, 4]})");
  args[2] = vectorMap();
  Result<Package> package = readPackage(pack(manifest));
  ASSERT_TRUE(package) << package.error().message;
  const Launch &launch = package->manifest.entries[0].variants[0].launches[1];
  ASSERT_EQ(launch.tensorMaps.size(), 3u);
  EXPECT_EQ(launch.args[0].kind, Argument::Kind::Input);
  EXPECT_EQ(launch.args[0].index, 0);
  EXPECT_EQ(launch.args[0].tensorMap, 0);
  EXPECT_EQ(launch.args[1].kind, Argument::Kind::Output);
  EXPECT_EQ(launch.args[1].tensorMap, 1);
  EXPECT_EQ(launch.args[2].kind, Argument::Kind::Workspace);
  EXPECT_EQ(launch.args[2].index, 1);
  EXPECT_EQ(launch.args[2].tensorMap, 2);
  EXPECT_EQ(launch.args[3].tensorMap, -1);
  const TensorMap &q = launch.tensorMaps[0], &ht = launch.tensorMaps[1];
  EXPECT_EQ(q.dtype, DataType::BF16);
  EXPECT_EQ(texts(q.sizes), (std::vector<std::string>{"B", "H", "T", "128"}));
  EXPECT_EQ(texts(q.strides), (std::vector<std::string>{"(T * H) * 128", "128", "H * 128"}));
  EXPECT_EQ(q.box, (std::vector<unsigned>{1, 2, 32, 64}));
  EXPECT_EQ(ht.dtype, DataType::F32);
  EXPECT_EQ(texts(ht.sizes), (std::vector<std::string>{"N", "H", "2", "64", "64"}));
  EXPECT_EQ(texts(ht.strides), (std::vector<std::string>{"32768", "8192", "4096", "64"}));
  EXPECT_EQ(ht.box, (std::vector<unsigned>{1, 1, 2, 256, 4}));
  const TensorMap &states = launch.tensorMaps[2];
  EXPECT_EQ(texts(states.sizes), std::vector<std::string>{"N"});
  EXPECT_TRUE(states.strides.empty());
  EXPECT_EQ(states.box, std::vector<unsigned>{32});
}

TEST(ManifestTensorMaps, BadOnesNameTheirPlace) {
  struct {
    const char *key;
    json value;
    const char *message;
  } cases[] = {
      {"tensor_map", 0, "args[0].tensor_map: expected one of {input}"},
      {"tensor_map", json::object(), "args[0].tensor_map: expected one of {input}"},
      {"tensor_map", {{"input", 0}, {"output", 0}}, "args[0].tensor_map: expected one of"},
      {"tensor_map", {{"i64", 1}}, "args[0].tensor_map: unknown kind of argument 'i64'"},
      {"tensor_map", {{"input", 6}}, "args[0].tensor_map: expected an integer from 0 to 5"},
      {"dtype", "f64", "args[0].dtype: a tensor map has no elements of type 'f64', expected f32"},
      {"dtype", "f8", "expected f32, f16 or bf16"},
      {"dtype", 16, "args[0].dtype: expected a string"},
      {"sizes", "T", "args[0].sizes: expected an array"},
      {"sizes", nullptr, "args[0].sizes: expected an array"},
      {"sizes", json::array(), "args[0].sizes: expected 1 to 5 expressions"},
      {"sizes", {1, 1, 1, 1, 1, 64}, "args[0].sizes: has 6 elements, more than the limit of 5"},
      {"sizes", {"B", "H", "Z", 128}, "args[0].sizes[2]: the symbol 'Z' is not bound"},
      {"sizes", {"B", "H", "T", json::array()}, "args[0].sizes[3]: "},
      {"sizes", {"B", "H", 1.5, 128}, "args[0].sizes[2]: "},
      {"sizes",
       {"H", "T", 128},
       "args[0].strides: expected 2 expressions, one less than sizes, but there are 3"},
      {"strides", 128, "args[0].strides: expected an array"},
      {"strides", json::array(),
       "args[0].strides: expected 3 expressions, one less than sizes, but there are 0"},
      {"strides",
       {1, 1, 1, 1},
       "args[0].strides: expected 3 expressions, one less than sizes, but there are 4"},
      {"strides", {1, 1, 1, 1, 1, 1}, "args[0].strides: has 6 elements, more than the limit of 5"},
      {"strides", {"Z", 128, 128}, "args[0].strides[0]: the symbol 'Z' is not bound"},
      {"strides", {128, 128, {{"T", 1}}}, "args[0].strides[2]: "},
      {"box", 64, "args[0].box: expected an array"},
      {"box", json::array(), "args[0].box: expected 4 integers, as many as sizes, but there are 0"},
      {"box", {64, 64}, "args[0].box: expected 4 integers, as many as sizes, but there are 2"},
      {"box", {1, 1, 1, 1, 64}, "expected 4 integers, as many as sizes, but there are 5"},
      {"box", {1, 1, 1, 1, 1, 64}, "args[0].box: has 6 elements, more than the limit of 5"},
      {"box", {0, 1, 1, 64}, "args[0].box[0]: expected an integer from 1 to 256"},
      {"box", {1, 257, 1, 64}, "args[0].box[1]: expected an integer from 1 to 256"},
      {"box", {1, 1, "T", 64}, "args[0].box[2]: expected an integer from 1 to 256"},
      {"box", {1, 1, UINT64_MAX, 64}, "args[0].box[2]: expected an integer from 1 to 256"},
      {"box", {1, 1, 64, 0}, "args[0].box[3]: expected an integer from 1 to 64"},
      {"box", {1, 1, 64, 72}, "args[0].box[3]: expected an integer from 1 to 64"},
      {"box",
       {1, 1, 64, 12},
       "args[0].box[3]: expected a multiple of 16 bytes, but 12 of bf16 have 24"},
      {"swizzle", 128, "args[0]: expected tensor_map, dtype, sizes, strides and box alone"},
      {"rows", "T", "args[0]: expected tensor_map, dtype, sizes, strides and box alone"},
      {"input", 0, "args[0]: expected tensor_map, dtype, sizes, strides and box alone"},
  };
  EXPECT_EQ(withTensorMap(tensorMap()), "");
  for (const auto &c : cases) {
    json argument = tensorMap();
    argument[c.key] = c.value;
    std::string message = withTensorMap(argument);
    EXPECT_TRUE(contains(message, c.message)) << c.key << " = " << c.value << ": " << message;
  }
  for (const char *key : {"dtype", "sizes", "strides", "box"}) {
    json argument = tensorMap();
    argument.erase(key);
    EXPECT_TRUE(contains(withTensorMap(argument), std::string("args[0].") + key + ": is missing"));
  }
  json f32 = tensorMap();
  f32["dtype"] = "f32";
  EXPECT_TRUE(contains(withTensorMap(f32), "args[0].box[3]: expected an integer from 1 to 32"));
  EXPECT_EQ(withTensorMap(vectorMap()), "");
  json vector = vectorMap();
  vector["strides"] = {1};
  EXPECT_TRUE(contains(withTensorMap(vector), "args[0].strides: expected 0 expressions, one less"));
  vector = vectorMap();
  vector["box"] = {1};
  EXPECT_TRUE(contains(withTensorMap(vector),
                       "args[0].box[0]: expected a multiple of 16 bytes, but 1 of f32 have 4"));
  vector["box"] = {1, 32};
  EXPECT_TRUE(contains(withTensorMap(vector), "args[0].box: expected 1 integer, as many as sizes"));
  EXPECT_TRUE(contains(withTensorMap({{"tensor_map", {{"input", 0}}},
                                      {"dtype", "bf16"},
                                      {"rows", "T"},
                                      {"columns", 128},
                                      {"box", {64, 64}}}),
                       "args[0].sizes: is missing"));
}

TEST(ManifestTensorMaps, AreLimited) {
  json args = json::array();
  for (int i = 0; i < EJK_MAX_TENSOR_MAPS; ++i)
    args.push_back(tensorMap());
  EXPECT_EQ(patched("/entries/0/launches/0/args", args), "");
  args.push_back(tensorMap());
  EXPECT_TRUE(
      contains(patched("/entries/0/launches/0/args", args),
               "entries[0].launches: have 129 tensor maps together, more than the limit of 128"));
}
