//===- CpuFixture.h - a package with code for this CPU ----------*- C++ -*-===//

#ifndef EJK_TEST_RUNTIME_CPUFIXTURE_H
#define EJK_TEST_RUNTIME_CPUFIXTURE_H

#include "TestPackage.h"

#include "cpu/Image.h"

#include <gtest/gtest.h>

namespace ejk::test {
// void number(const void *arguments, int64_t first, int64_t end): y[i] = i for these items.
inline constexpr unsigned char numberCode[] = {
    0x48, 0x39, 0xd6,       // 0:  cmp rsi, rdx
    0x7d, 0x0c,             //     jge 17
    0x48, 0x8b, 0x47, 0x08, //     mov rax, [rdi + 8]    the second argument
    0x89, 0x34, 0xb0,       //     mov [rax + rsi*4], esi
    0x48, 0xff, 0xc6,       //     inc rsi
    0xeb, 0xef,             //     jmp 0
    0xc3,                   // 17: ret
};

inline std::string numberBytes() {
  return std::string(reinterpret_cast<const char *>(numberCode), sizeof(numberCode));
}

/// copyManifest's entry, whose kernel numbers the elements of y.
inline nlohmann::json numberManifest() {
  nlohmann::json manifest = copyManifest("number");
  manifest.erase("arch");
  nlohmann::json &launch = manifest["entries"][0]["launches"][0];
  launch["grid"] = {"*", "R", 4};
  launch["block"] = {4, 1, 1};
  launch["shared_bytes"] = 0;
  launch["args"] = {{{"input", 0}}, {{"output", 0}}};
  return manifest;
}

inline std::string packFor(std::vector<std::string> archs,
                           nlohmann::json manifest = numberManifest(), uint64_t offset = 0,
                           const char *kernel = "number") {
  std::vector<ImageData> images;
  for (const std::string &arch : archs) {
    ImageData image{Image::Kind::Cpu, numberBytes(), arch};
    image.kernels = {{kernel, offset}};
    images.push_back(std::move(image));
  }
  return serializePackage(manifest, images);
}

class Cpu : public testing::Test {
protected:
  void SetUp() override {
    if (!runsCpuArchitecture("x86-64-v3"))
      GTEST_SKIP() << "the code of these tests is for x86-64-v3";
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  void open(const std::string &bytes) {
    std::string message;
    package = load(bytes, message);
    ASSERT_NE(package, nullptr) << message;
    ASSERT_EQ(create(kDLCPU), "");
  }
  std::string create(int32_t type) {
    ejk_executable_options options = {};
    options.struct_size = sizeof(options);
    options.device_type = type;
    return take(ejk_executable_create(package.get(), &options, &executable));
  }

  /// Rows of 4 numbers.
  struct Call {
    explicit Call(int64_t rows) : x(size_t(4 * rows)), y(size_t(4 * rows), -1), shape{rows, 4} {
      for (auto [tensor, data] : {std::pair(&in, x.data()), std::pair(&out, y.data())}) {
        *tensor = {};
        tensor->data = data;
        tensor->device = {kDLCPU, 0};
        tensor->ndim = 2;
        tensor->dtype = f32;
        tensor->shape = shape;
      }
      params = {};
      params.struct_size = sizeof(params);
      params.inputs = inputs;
      params.num_inputs = 1;
      params.outputs = outputs;
      params.num_outputs = 1;
    }
    bool isNumbered() const {
      for (size_t i = 0; i < y.size(); ++i)
        if (y[i] != int32_t(i))
          return false;
      return true;
    }
    std::vector<int32_t> x, y; // y's bytes are numbers to its kernel
    int64_t shape[2];
    DLTensor in, out;
    const DLTensor *inputs[1] = {&in}, *outputs[1] = {&out};
    ejk_launch_params params;
  };

  PackagePtr package;
  ejk_executable *executable = nullptr;
};
} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_CPUFIXTURE_H
