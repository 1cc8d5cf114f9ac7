//===- TensorFileTest.cpp - tensors, safetensors and .npy -----------------===//

#include "io/TensorFile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

using namespace ejk;

static const DataType allTypes[] = {DataType::F32, DataType::F16, DataType::BF16,
                                    DataType::F64, DataType::I32, DataType::I64};

static std::vector<HostTensor> samples() {
  std::vector<HostTensor> tensors;
  for (DataType type : allTypes)
    tensors.push_back(
        fromDoubles("t_" + std::string(dataTypeName(type)), type, {2, 3}, {0, 1, -2, 3, 40, -50}));
  tensors.push_back(fromDoubles("scalar", DataType::F32, {}, {7}));
  tensors.push_back(fromDoubles("empty", DataType::F32, {0, 5}, {}));
  return tensors;
}

static void expectEqual(const HostTensor &a, const HostTensor &b) {
  EXPECT_EQ(a.dtype, b.dtype) << b.name;
  EXPECT_EQ(a.shape, b.shape) << b.name;
  EXPECT_EQ(a.data, b.data) << b.name;
}

TEST(HostTensor, HalvesRoundToNearestEven) {
  EXPECT_EQ(doubleToHalf(1.0), 0x3c00);
  EXPECT_EQ(doubleToHalf(-2.0), 0xc000);
  EXPECT_EQ(doubleToHalf(65504), 0x7bff);
  EXPECT_EQ(doubleToHalf(65519.99), 0x7bff);
  EXPECT_EQ(doubleToHalf(65520), 0x7c00);
  EXPECT_EQ(doubleToHalf(0x1p-24), 0x0001);
  EXPECT_EQ(doubleToHalf(0x1p-25), 0x0000);     // a tie, to even
  EXPECT_EQ(doubleToHalf(0x1.8p-24), 0x0002);   // a tie, to even
  EXPECT_EQ(doubleToHalf(1 + 0x1p-11), 0x3c00); // a tie, to even
  EXPECT_EQ(doubleToHalf(1 + 3 * 0x1p-11), 0x3c02);
  // Through f32 this would become a tie first, and then round the wrong way.
  EXPECT_EQ(doubleToHalf(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(doubleToBfloat(1.0), 0x3f80);
  EXPECT_EQ(doubleToBfloat(1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(doubleToBfloat(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(doubleToBfloat(3.4e38), 0x7f80);
  EXPECT_EQ(doubleToBfloat(-HUGE_VAL), 0xff80);
  EXPECT_TRUE(std::isnan(halfToDouble(doubleToHalf(std::nan("")))));
  EXPECT_TRUE(std::isnan(bfloatToDouble(doubleToBfloat(std::nan("")))));
}

TEST(HostTensor, EveryHalfSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    double half = halfToDouble(uint16_t(bits)), bf = bfloatToDouble(uint16_t(bits));
    if (!std::isnan(half)) {
      EXPECT_EQ(doubleToHalf(half), bits);
    }
    if (!std::isnan(bf)) {
      EXPECT_EQ(doubleToBfloat(bf), bits);
      float exact;
      uint32_t wide = bits << 16;
      std::memcpy(&exact, &wide, 4);
      EXPECT_EQ(bf, double(exact));
    }
  }
}

TEST(Safetensors, RoundTrip) {
  std::vector<HostTensor> tensors = samples();
  Result<std::vector<HostTensor>> read = parseSafetensors(serializeSafetensors(tensors));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), tensors.size());
  for (const HostTensor &tensor : tensors) {
    const HostTensor *found = findTensor(*read, tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    expectEqual(*found, tensor);
  }
}

// A file with this header and `bytes` of data.
static std::string safetensors(const std::string &header, size_t bytes) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<char *>(&size), 8) + header + std::string(bytes, '\0');
}

TEST(Safetensors, MalformedFilesAreErrors) {
  const char *bad[] = {"",
                       "[]",
                       "{",
                       R"({"x": 1})",
                       R"({"x": {"dtype": "F32"}})",
                       R"({"x": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}})",
                       R"({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})",
                       R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})",
                       R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})",
                       R"({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}})",
                       R"({"x": {"dtype": "F32", "shape": [4611686018427387904, 4],
          "data_offsets": [0, 0]}})",
                       R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1e9]}})"};
  for (const char *header : bad)
    EXPECT_FALSE(parseSafetensors(safetensors(header, 8))) << header;
  EXPECT_FALSE(parseSafetensors(safetensors(std::string(100000, '['), 0)));
  std::string good = serializeSafetensors(samples());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parseSafetensors(good.substr(0, size))) << size;
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = good;
    damaged[random() % damaged.size()] = char(random());
    (void)parseSafetensors(damaged); // an error or not, but no crash
  }
}

TEST(Safetensors, MetadataIsSkipped) {
  auto read = parseSafetensors(safetensors(
      R"({"__metadata__": {"format": "pt"},
          "x": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}})",
      8));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size(), 1u);
}

TEST(Npy, RoundTrip) {
  for (const HostTensor &tensor : samples()) {
    Result<std::string> bytes = serializeNpy(tensor);
    if (tensor.dtype == DataType::BF16) {
      EXPECT_FALSE(bytes);
      continue;
    }
    ASSERT_TRUE(bytes) << tensor.name;
    Result<HostTensor> read = parseNpy(*bytes);
    ASSERT_TRUE(read) << read.error().message;
    expectEqual(*read, tensor);
  }
}

static std::string npy(const std::string &header, size_t bytes, char version = 1) {
  uint32_t size = uint32_t(header.size());
  return std::string("\x93NUMPY") + version + '\0' +
         std::string(reinterpret_cast<char *>(&size), version == 1 ? 2 : 4) + header +
         std::string(bytes, '\0');
}

TEST(Npy, HeadersAsNumPyWritesThem) {
  for (char version : {1, 2}) {
    auto read = parseNpy(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", 24, version));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->shape, (std::vector<int64_t>{2, 3}));
  }
  EXPECT_TRUE(parseNpy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", 24)));
}

TEST(Npy, MalformedFilesAreErrors) {
  auto message = [](const std::string &bytes) {
    Result<HostTensor> read = parseNpy(bytes);
    return read ? std::string() : read.error().message;
  };
  auto expectError = [&](const std::string &header, const char *part) {
    std::string text = message(npy(header, 4));
    EXPECT_NE(text.find(part), std::string::npos) << header << ": " << text;
  };
  expectError("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "Fortran order");
  expectError("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "element type '>f4'");
  expectError("{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }",
              "bfloat16 in a safetensors");
  expectError("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structure");
  expectError("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "takes 8 bytes");
  expectError("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }", "shape");
  expectError("{'descr': '<f4', 'fortran_order': False, 'shape': "
              "(99999999999999999999,",
              "shape");
  expectError("{'descr': '<f4'", "needs descr");
  EXPECT_NE(message(npy("", 0, 9)), "");
  std::string good = *serializeNpy(samples()[0]);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(message(good.substr(0, size)), "") << size;
}

TEST(TensorFile, CommandLineForms) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(::testing::TempDir()) / "ejk_tensor_file_test";
  fs::remove_all(folder);
  std::vector<HostTensor> two = {fromDoubles("a", DataType::F32, {2}, {1, 2}),
                                 fromDoubles("b", DataType::I64, {1}, {3})};
  std::string npys = (folder / "npys").string() + "/";
  EXPECT_EQ(writeTensors(npys, two), "");
  std::string file = (folder / "both.safetensors").string();
  EXPECT_EQ(writeTensors(file, two), "");

  auto names = [](const std::vector<std::string> &specs) {
    Result<std::vector<HostTensor>> read = readTensors(specs);
    if (!read)
      return "error: " + read.error().message;
    std::string text;
    for (const HostTensor &tensor : *read)
      text += tensor.name + ";";
    return text;
  };
  EXPECT_EQ(names({npys}), "a;b;");
  EXPECT_EQ(names({file}), "a;b;");
  EXPECT_EQ(names({npys + "a.npy"}), "a;");
  EXPECT_EQ(names({"q=" + npys + "a.npy", "k=" + npys + "b.npy"}), "q;k;");
  EXPECT_NE(names({file, npys}).find("second tensor named 'a'"), std::string::npos);
  EXPECT_NE(names({"/nonexistent.npy"}).find("error: cannot open"), std::string::npos);
  EXPECT_NE(writeTensors((folder / "x.npy").string(), two), "");
  EXPECT_NE(writeTensors("/nonexistent/x.safetensors", two), "");
  fs::remove_all(folder);
}
