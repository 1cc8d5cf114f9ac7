//===- MergeManifestsTest.cpp - one manifest of several architectures' ----===//
#include "lowering/driver/MergeManifests.h"
#include <gtest/gtest.h>

using namespace ejk;
namespace json = llvm::json;

namespace {
json::Object parse(llvm::StringRef text) {
  return std::move(*llvm::cantFail(json::parse(text)).getAsObject());
}

/// Each architecture's entries, merged; the problem is the test's failure unless it is asked for.
json::Object merge(std::vector<std::pair<const char *, const char *>> manifests,
                   std::string *problem = nullptr) {
  std::vector<ArchitectureManifest> all;
  for (auto [arch, entries] : manifests)
    all.push_back({arch, "step", parse((llvm::Twine("{\"entries\": ") + entries + "}").str())});
  std::string own;
  json::Object merged = mergeManifests(std::move(all), own);
  if (problem)
    *problem = own;
  else
    EXPECT_EQ(own, "");
  return merged;
}

const json::Object &entry(const json::Object &manifest, llvm::StringRef name) {
  for (const json::Value &value : *manifest.getArray("entries"))
    if (value.getAsObject()->getString("name") == name)
      return *value.getAsObject();
  ADD_FAILURE() << "there is no entry " << name.str();
  static json::Object none;
  return none;
}

/// "arch: workspace" of each variant, in order: what is launched, told by its workspace.
std::string variants(const json::Object &entry) {
  std::string text;
  for (const json::Value &value : *entry.getArray("variants")) {
    const json::Object &variant = *value.getAsObject();
    text += (*variant.getString("arch") + ":" + llvm::Twine(*variant.getInteger("workspace")) + " ")
                .str();
  }
  return text;
}

/// An entry `f` whose one result has these fields beside its name.
std::string withResult(const char *fields) {
  return std::string("[{\"name\": \"f\", \"inputs\": [{\"name\": \"x\"}, {\"name\": \"y\"}], "
                     "\"outputs\": [{\"name\": \"o\"") +
         fields + "}], \"workspace\": 1, \"launches\": []}]";
}

std::optional<int64_t> mergedAlias(const char *first, const char *second) {
  std::string one = withResult(first), other = withResult(second);
  json::Object merged = merge({{"sm_80", one.c_str()}, {"sm_90a", other.c_str()}});
  EXPECT_EQ(variants(entry(merged, "f")), "sm_80:1 sm_90a:1 ");
  return (*entry(merged, "f").getArray("outputs"))[0].getAsObject()->getInteger("may_alias");
}
} // namespace

// What one architecture's kernels cannot do in place, a caller may not ask for.
TEST(MergeManifests, InPlaceIsWhatAllArchitecturesDo) {
  const char *none = "", *x = ", \"may_alias\": 0", *y = ", \"may_alias\": 1";
  EXPECT_EQ(mergedAlias(x, x), 0);
  EXPECT_EQ(mergedAlias(y, y), 1);
  EXPECT_EQ(mergedAlias(x, none), std::nullopt);
  EXPECT_EQ(mergedAlias(none, x), std::nullopt);
  EXPECT_EQ(mergedAlias(x, y), std::nullopt);
}

TEST(MergeManifests, OtherDifferencesAreAProblem) {
  std::string one = withResult(", \"dtype\": \"f32\""), other = withResult(", \"dtype\": \"bf16\"");
  std::string problem;
  merge({{"sm_80", one.c_str()}, {"sm_90a", other.c_str()}}, &problem);
  EXPECT_EQ(problem, "'f' is called in another way on one architecture than on another");
}

// One architecture's derivative takes saved states, the other's does not: there `f` gives what a
// caller of `f_fwd` wants.
TEST(MergeManifests, AForwardThatSavesIsTheFunctionWhereNothingIsSaved) {
  const char *saving = R"([
    {"name": "f", "inputs": [], "outputs": [{"name": "o"}], "workspace": 1, "launches": []},
    {"name": "f_fwd", "fwd_of": "f", "inputs": [], "outputs": [{"name": "o"}, {"name": "saved"}],
     "workspace": 2, "launches": []},
    {"name": "f_vjp", "inputs": [{"name": "do"}, {"name": "saved"}], "outputs": [],
     "workspace": 3, "launches": []}])";
  const char *plain = R"([
    {"name": "f", "inputs": [], "outputs": [{"name": "o"}],
     "variants": [{"schedule": "chunk", "workspace": 4, "launches": []},
                  {"schedule": "step", "workspace": 5, "launches": []}]},
    {"name": "f_vjp", "inputs": [{"name": "do"}], "outputs": [], "workspace": 6, "launches": []}])";
  for (bool savingFirst : {true, false}) {
    json::Object merged = savingFirst ? merge({{"sm_90a", saving}, {"sm_80", plain}})
                                      : merge({{"sm_80", plain}, {"sm_90a", saving}});
    EXPECT_EQ(variants(entry(merged, "f")),
              savingFirst ? "sm_90a:1 sm_80:4 sm_80:5 " : "sm_80:4 sm_80:5 sm_90a:1 ");
    EXPECT_EQ(variants(entry(merged, "f_fwd")), "sm_90a:2 sm_80:4 sm_80:5 ");
    EXPECT_EQ(variants(entry(merged, "f_vjp")), savingFirst ? "sm_90a:3 sm_80:6 " : "sm_80:6 sm_90a:3 ");
    EXPECT_EQ(entry(merged, "f_fwd").getArray("outputs")->size(), 2u);
    EXPECT_EQ(entry(merged, "f_vjp").getArray("inputs")->size(), 2u);
  }
}

// An architecture that has `f_fwd` of its own keeps it.
TEST(MergeManifests, AForwardOfAllArchitecturesIsTheirs) {
  const char *first = R"([
    {"name": "f", "inputs": [], "outputs": [], "workspace": 1, "launches": []},
    {"name": "f_fwd", "fwd_of": "f", "inputs": [], "outputs": [], "workspace": 2, "launches": []}])";
  const char *second = R"([
    {"name": "f", "inputs": [], "outputs": [], "workspace": 3, "launches": []},
    {"name": "f_fwd", "fwd_of": "f", "inputs": [], "outputs": [], "workspace": 4, "launches": []}])";
  json::Object merged = merge({{"sm_80", first}, {"sm_90a", second}});
  EXPECT_EQ(variants(entry(merged, "f_fwd")), "sm_80:2 sm_90a:4 ");
}

/// Of `x` [B, T, H, 64], with these fields beside, read by a kernel that takes its row stride, as one
/// that was compiled for `arch` alone has it: the stride, or the size of a row.
static std::string entryWithRows(const char *fields, const char *argument) {
  return std::string("[{\"name\": \"f\", \"inputs\": [{\"name\": \"x\", \"shape\": [\"B\", \"T\", "
                     "\"H\", 64]") +
         fields + "}], \"outputs\": [], \"workspace\": 1, \"launches\": [{\"args\": [{\"i64\": " +
         argument + "}]}]}]";
}

TEST(MergeManifests, RowsLieApartWhereAllArchitecturesTakeThemSo) {
  auto arguments = [](const json::Object &merged) {
    std::string text;
    for (const json::Value &variant : *entry(merged, "f").getArray("variants"))
      llvm::raw_string_ostream(text) << *variant.getAsObject()->get("launches");
    return text;
  };
  const char *stride = ", \"row_stride\": \"row_stride.x\"";
  std::string apart = entryWithRows(stride, "\"row_stride.x\""),
              compact = entryWithRows("", "[\"*\", \"H\", 64]");
  json::Object merged = merge({{"sm_80", apart.c_str()}, {"sm_90a", apart.c_str()}});
  EXPECT_TRUE((*entry(merged, "f").getArray("inputs"))[0].getAsObject()->get("row_stride"));
  EXPECT_EQ(arguments(merged), R"([{"args":[{"i64":"row_stride.x"}]}][{"args":[{"i64":"row_stride.x"}]}])");
  for (bool isFirst : {true, false}) {
    merged = merge({{"sm_80", (isFirst ? apart : compact).c_str()},
                    {"sm_90a", (isFirst ? compact : apart).c_str()}});
    EXPECT_FALSE((*entry(merged, "f").getArray("inputs"))[0].getAsObject()->get("row_stride"));
    EXPECT_EQ(arguments(merged), R"([{"args":[{"i64":["*","H",64]}]}][{"args":[{"i64":["*","H",64]}]}])");
  }
}
