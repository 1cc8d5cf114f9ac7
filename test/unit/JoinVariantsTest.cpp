//===- JoinVariantsTest.cpp - variants of one entry of a manifest ---------===//
#include "lowering/host/JoinVariants.h"
#include "llvm/Support/Error.h"
#include <gtest/gtest.h>

using namespace ejk;
namespace json = llvm::json;

namespace {
/// An entry `f` of one output, with these fields beside its name, and these launches' arguments.
json::Object entryOf(const std::string &fields, const std::vector<const char *> &launches) {
  std::string text = "{\"name\": \"f\", \"inputs\": [{\"name\": \"x\"}, {\"name\": \"h0\"}], "
                     "\"outputs\": [{\"name\": \"ht\"" +
                     fields + "}], \"variants\": [{\"launches\": [";
  for (size_t i = 0; i < launches.size(); ++i)
    text += std::string(i ? ", " : "") + "{\"args\": [" + launches[i] + "]}";
  return std::move(*llvm::cantFail(json::parse(text + "]}]}")).getAsObject());
}

/// The input whose place the output may take: one variant says input 1, the other one nothing, and
/// launches these.
std::optional<int64_t> aliasWith(const std::vector<const char *> &launches, bool saysFirst) {
  json::Array entries;
  json::Object says = entryOf(", \"may_alias\": 1", {"{\"input\": 1}, {\"output\": 0}"}),
               silent = entryOf("", launches);
  addEntry(entries, std::move(saysFirst ? says : silent), /*isAlternative=*/false);
  addEntry(entries, std::move(saysFirst ? silent : says), /*isAlternative=*/true);
  const json::Object &merged = *entries[0].getAsObject();
  EXPECT_EQ(merged.getArray("variants")->size(), 2u);
  return (*merged.getArray("outputs"))[0].getAsObject()->getInteger("may_alias");
}

constexpr const char *kReads = "{\"input\": 1}", *kWrites = "{\"output\": 0}",
                     *kBoth = "{\"input\": 1}, {\"output\": 0}", *kOther = "{\"input\": 0}",
                     *kReadsByMap = "{\"tensor_map\": {\"input\": 1}}";
} // namespace

// One kernel that reads and writes a state has each block's part of it for itself.
TEST(JoinVariants, AliasOfOneKernel) {
  for (bool saysFirst : {true, false}) {
    EXPECT_EQ(aliasWith({kBoth}, saysFirst), 1);
    EXPECT_EQ(aliasWith({kOther, kBoth}, saysFirst), 1);
    EXPECT_EQ(aliasWith({kBoth, kReads}, saysFirst), std::nullopt);
    EXPECT_EQ(aliasWith({kReads, kBoth}, saysFirst), std::nullopt);
    EXPECT_EQ(aliasWith({kBoth, kReadsByMap}, saysFirst), std::nullopt);
  }
}

// Else all that read the input come before those that write the output.
TEST(JoinVariants, AliasOfKernelsInTurn) {
  for (bool saysFirst : {true, false}) {
    EXPECT_EQ(aliasWith({kReads, kOther, kWrites}, saysFirst), 1);
    EXPECT_EQ(aliasWith({kReads, kWrites, kWrites}, saysFirst), 1);
    EXPECT_EQ(aliasWith({kWrites}, saysFirst), 1);
    EXPECT_EQ(aliasWith({kWrites, kReads}, saysFirst), std::nullopt);
    EXPECT_EQ(aliasWith({kReads, kWrites, kReads}, saysFirst), std::nullopt);
    EXPECT_EQ(aliasWith({kWrites, kReadsByMap}, saysFirst), std::nullopt);
  }
}
