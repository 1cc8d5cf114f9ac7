//===- RowStrideTest.cpp - inputs whose rows lie apart --------------------===//

#include "FakeDriver.h"
#include "TestPackage.h"

#include "ejk/package_format.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace ejk::test;
using nlohmann::json;

/// glaManifest for any batch, with the row strides of q, [B, T, H, 128], and of g behind the first
/// kernel's arguments.
static json stridedManifest() {
  json manifest = glaManifest();
  json &entry = manifest["entries"][0];
  entry["constraints"].erase(1);
  entry["inputs"][0]["row_stride"] = "row_stride.q";
  entry["inputs"][3]["row_stride"] = "row_stride.g";
  json &launch = entry["launches"][0];
  launch["args"].push_back({{"i64", "row_stride.q"}});
  launch["args"].push_back({{"i64", {"*", 2, "row_stride.g"}}});
  // The fake driver takes the number of arguments from the name.
  launch["kernel"] = "strided_a" + std::to_string(launch["args"].size());
  return manifest;
}

namespace {
class RowStrides : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    package = load(stridedManifest());
    ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
    batch = call.shapes[0][0], steps = call.shapes[0][1], row = call.shapes[0][2] * 128;
    for (int d = 0; d < 4; ++d)
      strides[d] = dense(d);
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  int64_t dense(int dim) const {
    int64_t elements = 1;
    for (size_t d = size_t(dim) + 1; d < 4; ++d)
      elements *= call.shapes[0][d];
    return elements;
  }
  std::string launch() {
    fake->num_launches = 0;
    return take(ejk_launch(executable, 0, &call.params));
  }
  /// With the rows of q `apart` elements from each other.
  std::string launchApart(int64_t apart) {
    strides[1] = apart;
    strides[0] = call.shapes[0][1] * apart;
    call.q().strides = strides;
    return launch();
  }
  uint64_t strideGiven(size_t behind = 0) {
    size_t first = glaManifest()["entries"][0]["launches"][0]["args"].size();
    return fake->launches[0].args[first + behind];
  }
  void setSizes(int64_t sequences, int64_t rows) {
    for (int t : {0, 1, 2, 3, 6})
      call.shapes[t][0] = sequences, call.shapes[t][1] = rows;
  }

  PackagePtr package;
  ejk_executable *executable = nullptr;
  GlaCall call;
  int64_t batch, steps, row, strides[4];
};
} // namespace

TEST_F(RowStrides, ReachTheKernel) {
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(strideGiven(), uint64_t(row));
  EXPECT_EQ(strideGiven(1), uint64_t(2 * row));
  ASSERT_EQ(launchApart(row + 64), "");
  EXPECT_EQ(strideGiven(), uint64_t(row + 64));
  EXPECT_EQ(strideGiven(1), uint64_t(2 * row));
}

TEST_F(RowStrides, AreApartAndAligned) {
  EXPECT_EQ(launchApart(row - 8), "input 'q': its rows are " + std::to_string(row - 8) +
                                      " elements apart, expected at least " + std::to_string(row) +
                                      ", the elements of a row");
  EXPECT_EQ(launchApart(row + 4), "input 'q': its rows are " + std::to_string(2 * row + 8) +
                                      " bytes apart, expected a multiple of 16");
  EXPECT_EQ(launchApart(0), "input 'q': its rows are 0 elements apart, expected at least " +
                                std::to_string(row) + ", the elements of a row");
  EXPECT_EQ(launchApart(int64_t(1) << 31), "input 'q': its rows are 2147483648 elements apart, expected "
                                           "at most 2147483647");
  EXPECT_EQ(launchApart(-row), "input 'q': its rows are " + std::to_string(-row) +
                                   " elements apart, expected at least " + std::to_string(row) +
                                   ", the elements of a row");
}

TEST_F(RowStrides, LeaveRowsDense) {
  strides[2] += 128;
  EXPECT_EQ(launchApart(4 * row).substr(0, 43), "input 'q': the stride of dimension 2 is 256");
}

TEST_F(RowStrides, OfOthersAreNotTaken) {
  strides[1] += 64;
  strides[0] = steps * strides[1];
  call.k().strides = strides;
  EXPECT_NE(launch().find("the tensor must be compact and row-major"), std::string::npos);
}

TEST_F(RowStrides, AreEqualInAllSequences) {
  setSizes(2, steps / 2);
  EXPECT_EQ(launchApart(row + 64), "");
  strides[0] += 64;
  EXPECT_EQ(launch(), "input 'q': the stride of dimension 0 is " + std::to_string(strides[0]) +
                          ", expected " + std::to_string(strides[0] - 64) +
                          ": all rows must be equally far apart");
}

// A dimension of one element is never stepped along: its stride says nothing.
TEST_F(RowStrides, OfOneTokenAreThoseBetweenSequences) {
  setSizes(3, 1);
  strides[0] = row + 128;
  strides[1] = 1;
  call.q().strides = strides;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(strideGiven(), uint64_t(row + 128));
  setSizes(1, 1);
  strides[0] = 3;
  ASSERT_EQ(launch(), "");
  EXPECT_EQ(strideGiven(), uint64_t(row));
}

// What lies between rows counts: an output must not be there.
TEST_F(RowStrides, OverlapAsFarAsRowsReach) {
  strides[1] = 2 * row;
  call.o().data = static_cast<char *>(call.q().data) + (2 * steps - 2) * row * 2;
  EXPECT_EQ(launchApart(2 * row), "output 'o': its memory overlaps that of input 'q', which it may not "
                                  "replace in place");
}

// Of three dimensions, a row is a number for each head, which kernels read one at a time: rows are
// as far apart as elements may be, whatever the number of heads.
TEST(RowStridesOfVectors, AreAlignedAsElementsAre) {
  PackagePtr vectors = load(json::parse(R"({"producer": "test", "arch": "sm_80", "entries": [{
      "name": "gates",
      "inputs": [{"name": "dt", "dtype": "f32", "shape": ["B", "T", "H"], "align": 16,
                  "row_stride": "row_stride.dt"}],
      "outputs": [{"name": "y", "dtype": "f32", "shape": ["B", "T", "H"], "align": 16}],
      "launches": [{"kernel": "gates_a3", "block": [32, 1, 1], "shared_bytes": 0, "grid": "T",
                    "args": [{"input": 0}, {"output": 0}, {"i64": "row_stride.dt"}]}]}]})"));
  ASSERT_NE(vectors, nullptr);
  int64_t shape[] = {2, 3, 4};
  for (int64_t apart : {4, 5, 6, 7, 9}) {
    int64_t strides[] = {3 * apart, apart, 1};
    DLTensor dt = {}, y;
    dt.data = reinterpret_cast<void *>(uintptr_t(1) << 32);
    dt.device = {kDLCUDA, 0};
    dt.ndim = 3;
    dt.dtype = f32;
    dt.shape = shape;
    y = dt;
    y.data = reinterpret_cast<void *>(uintptr_t(2) << 32);
    dt.strides = strides;
    const DLTensor *inputs[] = {&dt}, *outputs[] = {&y};
    EXPECT_EQ(take(ejk_entry_check(vectors.get(), 0, inputs, 1, outputs, 1)), "") << apart;
  }
}

static std::string whyNot(const json &manifest) {
  std::string message;
  PackagePtr package = load(pack(manifest), message);
  return package ? "" : message;
}

TEST(RowStrideManifest, Errors) {
  EXPECT_EQ(whyNot(stridedManifest()), "");
  auto expect = [](int input, json symbol, const char *why) {
    json manifest = stridedManifest();
    manifest["entries"][0]["inputs"][input]["row_stride"] = std::move(symbol);
    EXPECT_NE(whyNot(manifest).find(why), std::string::npos) << whyNot(manifest);
  };
  expect(0, 1, "inputs[0].row_stride");
  expect(0, "T", "inputs[0].row_stride: expected a symbol that nothing else determines");
  expect(3, "row_stride.q", "inputs[3].row_stride: expected a symbol that nothing else determines");
  expect(1, "device.arch", "inputs[1].row_stride: expected a symbol that nothing else determines");
  expect(4, "s", "inputs[4].row_stride: has a tensor of three dimensions or more that is no pool");
  json manifest = stridedManifest();
  manifest["entries"][0]["inputs"][5]["slots"] = true;
  manifest["entries"][0]["inputs"][5]["row_stride"] = "s";
  EXPECT_NE(whyNot(manifest).find("that is no pool"), std::string::npos);
}

// Row strides are symbols, and so count among those that a call has places for.
TEST(RowStrideManifest, AreAmongTheSymbolsThatAreLimited) {
  auto withSymbols = [](int count) {
    json manifest = stridedManifest();
    json &inputs = manifest["entries"][0]["inputs"], last = inputs[1];
    int symbols = 7; // B, T, H, Hkv, N and two row strides
    for (int i = 0; symbols < count - 1; ++i) {
      json more = last;
      more["name"] = "x" + std::to_string(i);
      more["shape"] = json::array();
      for (int left = std::min(EJK_MAX_RANK, count - 1 - symbols); left > 0; --left)
        more["shape"].push_back("S" + std::to_string(symbols++));
      inputs.push_back(more);
    }
    last["name"] = "last";
    last["row_stride"] = "row_stride.last";
    inputs.push_back(last);
    return whyNot(manifest);
  };
  EXPECT_EQ(withSymbols(EJK_MAX_SYMBOLS), "");
  std::string message = withSymbols(EJK_MAX_SYMBOLS + 1);
  EXPECT_NE(message.find(".row_stride: expected a symbol"), std::string::npos) << message;
}
