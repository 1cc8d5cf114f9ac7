//===- TensorFileTest.cpp - tensors, safetensors and .npy -----------------===//

#include "Injection.h"

#include "io/TensorFile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
                       R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1e9]}})",
                       R"({"x": {"dtype": "F32", "shape": 1, "data_offsets": [0, 8]}})",
                       R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}})",
                       R"({"x": {"dtype": 32, "shape": [2], "data_offsets": [0, 8]}})",
                       R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": 8}})"};
  for (const char *header : bad)
    EXPECT_FALSE(parseSafetensors(safetensors(header, 8))) << header;
  EXPECT_FALSE(parseSafetensors(safetensors(std::string(100000, '['), 0)));
  // The header ends where it ends: only spaces follow it.
  std::string one = R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  EXPECT_TRUE(parseSafetensors(safetensors(one + "  ", 8)));
  EXPECT_FALSE(parseSafetensors(safetensors(one + "x", 8)));
  EXPECT_FALSE(parseSafetensors(safetensors(one + std::string("\0x", 2), 8)));
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

static std::string safetensorsError(const std::string &header, size_t bytes) {
  Result<std::vector<HostTensor>> read = parseSafetensors(safetensors(header, bytes));
  return read ? "" : read.error().message;
}

static std::string tensorAt(const char *name, int begin, int end) {
  return std::string("\"") + name + R"(": {"dtype": "F32", "shape": [)" +
         std::to_string((end - begin) / 4) + R"(], "data_offsets": [)" + std::to_string(begin) +
         "," + std::to_string(end) + "]}";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

// A file of 2.5 MB whose tensors all had the same bytes once took 18 GB.
TEST(Safetensors, DataHasNeitherOverlapsNorHoles) {
  auto of = [](const std::vector<std::string> &tensors, size_t bytes) {
    std::string header = "{";
    for (const std::string &tensor : tensors)
      header += (header.size() > 1 ? ", " : "") + tensor;
    return safetensorsError(header + "}", bytes);
  };
  EXPECT_EQ(of({tensorAt("a", 0, 8), tensorAt("b", 8, 12)}, 12), "");
  EXPECT_EQ(of({tensorAt("b", 8, 12), tensorAt("a", 0, 8)}, 12), "");
  EXPECT_EQ(of({tensorAt("a", 0, 8), tensorAt("e", 8, 8), tensorAt("b", 8, 12)}, 12), "");
  EXPECT_EQ(of({}, 0), "");
  EXPECT_CONTAINS(of({tensorAt("a", 0, 8), tensorAt("b", 0, 8)}, 8),
                  "tensor 'b': its data starts at byte 0, but the data before it ends at byte 8");
  EXPECT_CONTAINS(of({tensorAt("a", 0, 8), tensorAt("b", 4, 12)}, 12),
                  "neither overlaps nor holes");
  EXPECT_CONTAINS(of({tensorAt("a", 0, 8), tensorAt("b", 12, 16)}, 16), "'b': its data starts at");
  EXPECT_CONTAINS(of({tensorAt("a", 4, 8)}, 8), "'a': its data starts at byte 4");
  EXPECT_CONTAINS(of({tensorAt("a", 0, 8)}, 12), "have 8 bytes of data, but 12 follow the header");
  EXPECT_CONTAINS(of({tensorAt("a", 0, 8)}, 4), "have 8 bytes of data, but 4 follow the header");
}

TEST(Safetensors, HeadersThatNobodyVouchesFor) {
  EXPECT_CONTAINS(safetensorsError("{" + tensorAt("a", 0, 4) + "," + tensorAt("a", 0, 4) + "}", 4),
                  "the key 'a' occurs twice");
  EXPECT_CONTAINS(safetensorsError("{" + tensorAt("\\u001b[2J", 0, 4) + "}", 4),
                  "tensor '\\x1b[2J': text must be UTF-8 without control characters");
  EXPECT_CONTAINS(
      safetensorsError(R"({"a": {"dtype": "\u001b", "shape": [], "data_offsets": [0, 4]}})", 4),
      "element type '\\x1b' is none of");
  std::string many = "{";
  for (int i = 0; i < 300000; ++i)
    many += "\"" + std::to_string(i) + "\":{},";
  EXPECT_CONTAINS(safetensorsError(many, 0), "more than 262144 values");
  uint64_t huge = 100'000'001;
  EXPECT_CONTAINS(parseSafetensors({reinterpret_cast<char *>(&huge), sizeof(huge)}).error().message,
                  "its header claims 100000001 bytes, more than 100000000");
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

// NumPy's format: the data begins at a multiple of 64 bytes, and the header ends with a line end.
TEST(Npy, DataIsAligned) {
  // Shapes whose headers have each remainder by 64.
  for (int64_t rank = 1; rank <= 40; ++rank) {
    std::vector<int64_t> shape(rank, 1);
    for (int64_t size : {1, 10}) {
      shape[0] = size;
      std::string bytes = *serializeNpy(
          fromDoubles("x", DataType::F64, shape, std::vector<double>(size_t(size), 1)));
      size_t header = uint8_t(bytes[8]) + 256 * uint8_t(bytes[9]), data = 10 + header;
      EXPECT_EQ(data % 64, 0u) << rank;
      ASSERT_EQ(bytes.size(), data + size_t(size) * 8);
      EXPECT_EQ(bytes[data - 1], '\n');
      // No more padding than that takes.
      size_t end = bytes.find('}');
      ASSERT_LT(end, data);
      EXPECT_LT(data - 1 - (end + 1), 64u);
      EXPECT_EQ(bytes.substr(end + 1, data - 1 - (end + 1)),
                std::string(data - 1 - (end + 1), ' '));
    }
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

// What Python would not take as NumPy's dictionary, or would take otherwise.
TEST(Npy, HeadersAreReadAsPythonReadsThem) {
  auto error = [](const std::string &header, size_t bytes = 4) {
    Result<HostTensor> read = parseNpy(npy(header, bytes));
    return read ? std::string() : read.error().message;
  };
  const std::string start = "{'descr': '<f4', 'fortran_order': False, ";
  EXPECT_EQ(error(start + "'shape': ()}"), "");
  EXPECT_EQ(error(start + "'shape': (1,)}"), "");
  EXPECT_EQ(error(start + "'shape': (1,1),}\n"), "");
  EXPECT_EQ(error("{\"shape\":(1 , 1 , ),\t\"descr\" : \"<f4\",'fortran_order':False}  "), "");
  EXPECT_CONTAINS(error(start + "'shape': (1,), 'shape': (2,)}"), "key 'shape' twice");
  EXPECT_CONTAINS(error(start + "'shape': (1,), 'descr': '<f8'}"), "key 'descr' twice");
  EXPECT_CONTAINS(error(start + "'shape': (1,), 'fortran_order': True}"), "'fortran_order' twice");
  EXPECT_CONTAINS(error(start + "'shape': (1,), '\x1b': 1}"), "the key '\\x1b' twice, or may not");
  for (const char *shape : {"(1 4 1,,,64)", "(1)", "(,)", "(1,,2)", "(1, 2", "1", "[1]", "(-1,)",
                            "(1.0,)", "(9223372036854775808,)", "(99999999999999999999,)"})
    EXPECT_CONTAINS(error(start + "'shape': " + shape + "}"), "its shape is malformed");
  std::string ranks = "(";
  for (int i = 0; i < 65; ++i)
    ranks += "1,";
  EXPECT_CONTAINS(error(start + "'shape': " + ranks + ")}"), "its shape is malformed");
  for (const char *bad : {"", "x", "{", "{'descr' '<f4'}", "{'descr: '<f4'}", "{descr: '<f4'}",
                          "{'descr': '<f4' 'shape': (1,)}"})
    EXPECT_CONTAINS(error(bad), "not a Python dictionary");
  EXPECT_CONTAINS(error(start + "'shape': (1,)} x"), "not a Python dictionary");
  EXPECT_CONTAINS(error("{'descr': <f4}"), "its element type is malformed");
  EXPECT_CONTAINS(error("{'fortran_order': 0}"), "neither True nor False");
  EXPECT_CONTAINS(error(start + "'shape': (4611686018427387904, 4)}"), "overflows 64 bits");
  EXPECT_CONTAINS(error(std::string(65537, ' ')), "not a Python");
  EXPECT_CONTAINS(parseNpy(npy(std::string(65537, ' '), 0, 2)).error().message,
                  "its header claims 65537 bytes, more than 65536");
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
  expectError("{'descr': '<f4'}", "needs descr");
  expectError("{'descr': '<f4'", "not a Python dictionary");
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

namespace {
class TensorPath : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(::testing::TempDir()) /
             ("ejk_tensor_path_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const std::string &name) { return (folder / name).string(); }
  static std::string error(const std::string &spec) {
    Result<std::vector<HostTensor>> read = readTensors({spec});
    return read ? "" : read.error().message;
  }
  // The error from a pipe that brings these bytes.
  std::string throughPipe(const std::string &name, const std::string &bytes) {
    std::string path = at(name);
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::thread writer([&] { std::ofstream(path, std::ios::binary) << bytes; });
    std::string message = error(path);
    writer.join();
    std::filesystem::remove(path);
    return message;
  }

  std::filesystem::path folder;
};
} // namespace

TEST_F(TensorPath, OnlyWhatIsWantedIsRead) {
  ASSERT_EQ(writeTensors(at("all.safetensors"), samples()), "");
  ASSERT_EQ(writeTensors(at("x.npy"), {samples()[0]}), "");
  std::vector<std::string> asked;
  auto wanted = [&](std::string_view name) {
    asked.emplace_back(name);
    return name == "t_i64" || name == "scalar";
  };
  Result<std::vector<HostTensor>> read = readTensors({at("all.safetensors"), at("x.npy")}, wanted);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), samples().size() + 1);
  for (const HostTensor &sample : samples()) {
    const HostTensor *found = findTensor(*read, sample.name);
    ASSERT_NE(found, nullptr) << sample.name;
    EXPECT_EQ(found->shape, sample.shape);
    if (sample.name == "t_i64" || sample.name == "scalar")
      expectEqual(*found, sample);
    else
      EXPECT_TRUE(found->data.empty()) << sample.name;
  }
  EXPECT_EQ(asked.size(), read->size());
}

// A hundred GB that are a hole on the disk: neither read nor made room for.
TEST_F(TensorPath, LargeFilesTakeNoMemory) {
  std::string path = at("large.safetensors");
  std::string header = R"({"a": {"dtype": "F32", "shape": [25000000000],
    "data_offsets": [0, 100000000000]}, "b": {"dtype": "F32", "shape": [1],
    "data_offsets": [100000000000, 100000000004]}})";
  std::ofstream(path, std::ios::binary) << safetensors(header, 0);
  std::filesystem::resize_file(path, 8 + header.size() + 100000000004);
  auto read = readTensors({path}, [](std::string_view name) { return name == "b"; });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(findTensor(*read, "b")->data.size(), 4u);
  EXPECT_TRUE(findTensor(*read, "a")->data.empty());
}

// More than any address space has; files in memory may be as large.
TEST_F(TensorPath, NoMemoryIsAnError) {
#ifdef EJK_SANITIZER_OWNS_MALLOC
  GTEST_SKIP() << "a sanitizer takes such a size for a fault";
#endif
  std::string header = R"({"a": {"dtype": "F32", "shape": [1000000000000000000],
    "data_offsets": [0, 4000000000000000000]}})";
  std::string start = safetensors(header, 0);
  int file = ::memfd_create("larger", 0);
  ASSERT_EQ(::write(file, start.data(), start.size()), ssize_t(start.size()));
  ASSERT_EQ(::ftruncate(file, off_t(start.size()) + 4000000000000000000), 0);
  EXPECT_CONTAINS(error("/proc/self/fd/" + std::to_string(file)),
                  "there is no memory for 4000000000000000000 bytes");
  ::close(file);
}

TEST_F(TensorPath, FilesWithoutEnd) {
  EXPECT_CONTAINS(error("/dev/zero"),
                  "'/dev/zero': not a usable safetensors file: its header: it is");
  EXPECT_CONTAINS(error("/dev/null"), "it has fewer than 8 bytes");
  std::filesystem::create_symlink("/dev/zero", at("zero.npy"));
  EXPECT_CONTAINS(error(at("zero.npy")), "does not start with \\x93NUMPY");
  std::string readWhole = readFile("/dev/zero").error().message;
  EXPECT_CONTAINS(readWhole, "'/dev/zero': it is no regular file and has more than 67108864 bytes");
}

TEST_F(TensorPath, PipesAreReadToTheirEnd) {
  std::string file = serializeSafetensors(samples()), array = *serializeNpy(samples()[0]);
  EXPECT_EQ(throughPipe("a.safetensors", file), "");
  EXPECT_EQ(throughPipe("a.npy", array), "");
  EXPECT_CONTAINS(throughPipe("b.safetensors", file + "x"), "more bytes follow the last tensor");
  EXPECT_CONTAINS(throughPipe("b.npy", array + "x"), "more bytes follow the last tensor");
  EXPECT_CONTAINS(throughPipe("c.safetensors", file.substr(0, file.size() - 1)),
                  "takes 4 bytes, but there are 3");
  EXPECT_CONTAINS(throughPipe("c.safetensors", file.substr(0, 20)), "its header is truncated");
  EXPECT_CONTAINS(throughPipe("c.npy", array.substr(0, 20)), "its header is truncated");
  EXPECT_CONTAINS(throughPipe("c.npy", array.substr(0, array.size() - 1)),
                  "takes 24 bytes, but there are 23");
  // A terabyte is promised, and eight bytes come.
  std::string promise = R"({"a": {"dtype": "F32", "shape": [250000000000],
    "data_offsets": [0, 1000000000000]}})";
  EXPECT_CONTAINS(throughPipe("d.safetensors", safetensors(promise, 8)), "but there are 8");
  auto skipped = [&] {
    std::string path = at("skip.safetensors");
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::thread writer([&] { std::ofstream(path, std::ios::binary) << file; });
    auto read = readTensors({path}, [](std::string_view name) { return name == "t_i64"; });
    writer.join();
    return read && findTensor(*read, "t_i64")->data.size() == 48;
  };
  EXPECT_TRUE(skipped());
}

TEST_F(TensorPath, NamesOfFilesNameTensors) {
  std::string bytes = *serializeNpy(samples()[0]);
  std::ofstream(at("\033[2J.npy"), std::ios::binary) << bytes;
  std::string message = error(folder.string());
  EXPECT_CONTAINS(message, "\\x1b[2J.npy': its name cannot name a tensor");
  EXPECT_EQ(message.find('\033'), std::string::npos);
  EXPECT_CONTAINS(error("x=" + at("y.safetensors")), "NAME=FILE takes a .npy file");
  std::filesystem::create_directory(at("none"));
  EXPECT_CONTAINS(error(at("none")), "has no readable .npy or .safetensors file in it");
  EXPECT_FALSE(tensorFilePaths({at("none")}));
  auto paths = tensorFilePaths({"k=" + at("k.npy"), folder.string()});
  ASSERT_TRUE(paths);
  EXPECT_EQ(*paths, (std::vector<std::string>{at("k.npy"), at("\033[2J.npy")}));
}
