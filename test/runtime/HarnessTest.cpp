//===- HarnessTest.cpp - runs and timings on the fake driver --------------===//

#include "ChooseFixture.h"
#include "FakeDriver.h"
#include "TestPackage.h"

#include "harness/Choice.h"
#include "harness/Harness.h"
#include "harness/RandomInputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace ejk;
using namespace ejk::test;

extern "C" int ejk_header_test(void);

TEST(Header, CompilesAndWorksAsC) { EXPECT_TRUE(ejk_header_test()); }

namespace {
class Harness : public FakeDriverTest {
protected:
  void open(const nlohmann::json &manifest) {
    Result<std::unique_ptr<DeviceSession>> opened = DeviceSession::open();
    ASSERT_TRUE(opened) << opened.error().message;
    session = std::move(*opened);
    Result<std::unique_ptr<Program>> loaded = session->load(pack(manifest));
    ASSERT_TRUE(loaded) << loaded.error().message;
    program = std::move(*loaded);
  }
  std::string runError(const std::vector<HostTensor> &inputs) {
    auto outputs = session->run(*program, "", inputs);
    EXPECT_EQ(fake->live_allocations, 0) << "device memory leaks";
    return outputs ? "" : outputs.error().message;
  }

  std::unique_ptr<DeviceSession> session;
  std::unique_ptr<Program> program;
  HostTensor x = fromDoubles("x", DataType::F32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
};
} // namespace

TEST_F(Harness, RunsAnEntry) {
  open(copyManifest("copy_bytes_a3"));
  EXPECT_EQ(session->architecture(), "sm_90");
  for (bool inPlace : {false, true}) {
    RunOptions options;
    options.inPlace = inPlace;
    auto outputs = session->run(*program, "copy", {x}, options);
    ASSERT_TRUE(outputs) << outputs.error().message;
    ASSERT_EQ(outputs->size(), 1u);
    EXPECT_EQ((*outputs)[0].name, "y");
    EXPECT_EQ((*outputs)[0].data, x.data);
    const fake_launch &launch = fake->launches[inPlace];
    EXPECT_EQ(launch.args[0] == launch.args[1], inPlace);
  }
  EXPECT_EQ(fake->live_allocations, 0);
}

TEST_F(Harness, OutputsThatNobodyWritesAreNaN) {
  open(copyManifest("nothing_a3"));
  auto outputs = session->run(*program, "", {x});
  ASSERT_TRUE(outputs) << outputs.error().message;
  for (double value : toDoubles((*outputs)[0]))
    EXPECT_TRUE(std::isnan(value));
}

TEST_F(Harness, WritesPastTheEndAreFound) {
  open(copyManifest("overrun_a3"));
  EXPECT_EQ(runError({x}), "a kernel wrote past the end of output 'y'");
}

TEST_F(Harness, WritesPastTheEndOfTheWorkspaceAreFound) {
  nlohmann::json manifest = copyManifest("overrun_a3");
  manifest["entries"][0]["workspace"] = {{{"name", "w"}, {"bytes", {"*", "R", 16}}}};
  manifest["entries"][0]["launches"][0]["args"][1] = {{"workspace", 0}};
  open(manifest);
  HostTensor rows = fromDoubles("x", DataType::F32, {16, 4}, std::vector<double>(64));
  EXPECT_EQ(runError({rows}), "a kernel wrote past the end of the workspace");
}

TEST_F(Harness, InputErrors) {
  open(copyManifest("copy_bytes_a3"));
  HostTensor z = x;
  z.name = "z";
  EXPECT_EQ(runError({z}), "input 'x' (f32 [R, 4]) is missing; given: z");
  HostTensor wrong = fromDoubles("x", DataType::BF16, {2, 4}, std::vector<double>(8));
  EXPECT_EQ(runError({wrong}), "input 'x': element type is bf16, expected f32");
  EXPECT_NE(session->run(*program, "gla", {x}).error().message, "");
}

TEST_F(Harness, SequenceOffsetsAreCheckedOnTheHost) {
  open(glaManifest());
  const Entry &entry = program->package().manifest.entries[0];
  auto inputs = randomInputs(entry, {{"B", 1}, {"T", 8}, {"H", 4}, {"Hkv", 2}, {"N", 3}}, 1);
  ASSERT_TRUE(inputs) << inputs.error().message;
  EXPECT_EQ(runError(*inputs), "");
  setElement((*inputs)[4], 3, 9);
  EXPECT_EQ(runError(*inputs), "input 'cu_seqlens': the last entry is 9, "
                               "expected at most T = 8");
}

TEST_F(Harness, BenchRotatesPastTheCache) {
  open(copyManifest("copy_bytes_a3"));
  fake->l2_bytes = 1 << 14;
  // The session read the size of the cache when it was opened.
  session.reset();
  program.reset();
  open(copyManifest("copy_bytes_a3"));
  auto result = session->bench(*program, "copy", {x});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->bytes, 64);
  EXPECT_GT(result->rotationBytes, 3 * (1 << 14));
  EXPECT_GT(result->copies, 1);
  EXPECT_GE(result->repetitions, 20);
  // One to warm up and 20 with rests; then at most 100 without, which are repeated once.
  EXPECT_EQ(fake->graph_replays, 21 + 2 * 100);
  EXPECT_GE(fake->captured_launches, result->copies);
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_NE(result->describe().find("x the floor"), std::string::npos);
}

TEST(RandomInputs, AreValidAndRepeatable) {
  Package package = std::move(*readPackage(pack(glaManifest())));
  const Entry &entry = package.manifest.entries[0];
  Sizes sizes = *parseSizes("B=1,T=100,H=4,Hkv=2,N=5");
  auto first = randomInputs(entry, sizes, 7), second = randomInputs(entry, sizes, 7);
  ASSERT_TRUE(first) << first.error().message;
  for (size_t i = 0; i < first->size(); ++i)
    EXPECT_EQ((*first)[i].data, (*second)[i].data);
  std::vector<double> offsets = toDoubles((*first)[4]);
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), 100);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  for (double gate : toDoubles((*first)[3]))
    EXPECT_LE(gate, 0);
}

// Roles decide how numbers are drawn, and names do not.
TEST(RandomInputs, FollowRoles) {
  nlohmann::json manifest = glaManifest();
  auto &inputs = manifest["entries"][0]["inputs"];
  inputs[0]["role"] = "rate";
  inputs[3].erase("role");
  Package package = std::move(*readPackage(pack(manifest)));
  auto drawn = randomInputs(package.manifest.entries[0], *parseSizes("B=1,T=100,H=4,Hkv=2,N=5"), 7);
  ASSERT_TRUE(drawn) << drawn.error().message;
  double squares = 0;
  for (double rate : toDoubles((*drawn)[0])) {
    EXPECT_GE(rate, 0);
    EXPECT_LE(rate, 1);
  }
  std::vector<double> keys = toDoubles((*drawn)[1]), gates = toDoubles((*drawn)[3]);
  for (double key : keys)
    squares += key * key;
  EXPECT_NEAR(squares / double(keys.size()) * 128, 1, 0.1); // a key of 128 channels is 1 long
  EXPECT_GT(*std::max_element(gates.begin(), gates.end()), 1);
}

// Gates of a channel are alike in all rows, also past what is repeated.
TEST(RandomInputs, HaveGatesOfAProfile) {
  Package package = std::move(*readPackage(pack(glaManifest())));
  const Entry &entry = package.manifest.entries[0];
  Sizes sizes = *parseSizes("B=1,T=400,H=4,Hkv=4,N=5");
  size_t row = 1;
  auto gatesOf = [&](std::string_view profile) {
    auto drawn = randomInputs(entry, sizes, 7, profile);
    EXPECT_TRUE(drawn) << drawn.error().message;
    const std::vector<int64_t> &shape = (*drawn)[3].shape;
    row = 1;
    for (size_t dim = 2; dim < shape.size(); ++dim)
      row *= size_t(shape[dim]);
    return toDoubles((*drawn)[3]);
  };
  auto meanOf = [](const std::vector<double> &gates) {
    return std::accumulate(gates.begin(), gates.end(), 0.0) / double(gates.size());
  };
  auto rangeOf = [](const std::vector<double> &gates) {
    auto [least, most] = std::minmax_element(gates.begin(), gates.end());
    return std::make_pair(*least, *most);
  };
  std::vector<double> strong = gatesOf("lb5"), weak = gatesOf("weak"), softplus = gatesOf("softplus");
  EXPECT_GE(rangeOf(strong).first, -5);
  EXPECT_LE(rangeOf(strong).second, 0);
  EXPECT_LT(meanOf(strong), -2);
  EXPECT_GE(rangeOf(weak).first, -1.0 / 16);
  EXPECT_LE(rangeOf(softplus).second, 0);
  std::vector<double> resets = gatesOf("resets"), saturated = gatesOf("saturated");
  size_t others = 0, changes = 0;
  for (size_t i = 0; i < resets.size(); ++i)
    others += std::isinf(resets[i]) != (i / row % 61 == 60);
  for (size_t i = row; i < saturated.size(); ++i)
    changes += saturated[i] != saturated[i - row];
  EXPECT_EQ(others, 0u);
  EXPECT_EQ(changes, 0u);
  EXPECT_EQ(randomInputs(entry, sizes, 7, "strong").error().message,
            "there are no gates 'strong'; there are mid, weak, mixed, logsigmoid, lb5, softplus, saturated, resets");
}

TEST(RandomInputs, Errors) {
  Package package = std::move(*readPackage(pack(glaManifest())));
  const Entry &entry = package.manifest.entries[0];
  EXPECT_EQ(randomInputs(entry, *parseSizes("B=1,T=4,H=2"), 0).error().message,
            "the entry 'gla' also needs sizes for: Hkv, N");
  EXPECT_EQ(randomInputs(entry, *parseSizes("B=1,T=4,H=2,Hkv=1,N=1,L=1"), 0).error().message,
            "the entry 'gla' has no symbol 'L'");
  for (const char *bad : {"B", "B=", "=4", "B=x", "B=-1", "B=1,,"})
    EXPECT_FALSE(parseSizes(bad)) << bad;
}

TEST(Choice, PassesOverWhatNeedsMoreSharedMemory) {
  nlohmann::json manifest = variantsManifest();
  for (int grouped : {1, 2})
    manifest["entries"][0]["variants"][grouped]["launches"][0]["shared_bytes"] = 120 << 10;
  Result<Package> package = readPackage(pack(manifest));
  ASSERT_TRUE(package) << package.error().message;
  const Entry &entry = package->manifest.entries.front();
  Sizes sizes;
  for (const std::string &symbol : entry.symbols)
    sizes[symbol] = 200;
  ChoiceDevice device;
  Result<VariantChoice> large = chooseVariant(package->manifest, entry, sizes, device);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->variant->schedule, "chunk");
  device.sharedBytes = 99 << 10;
  Result<VariantChoice> small = chooseVariant(package->manifest, entry, sizes, device);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(small->variant->schedule, "step");
  EXPECT_NE(small->explanation.find("not chunk: it needs 122880 bytes of shared memory, and the device has "
                                    "101376"),
            std::string::npos)
      << small->explanation;
}
