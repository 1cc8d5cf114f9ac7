//===- ArgumentsTest.cpp - calls that no data could make right ------------===//

#include "FakeDriver.h"
#include "TestPackage.h"

#include "ejk/package_format.h"

#include <cstring>

using namespace ejk::test;
using nlohmann::json;

namespace {
class Arguments : public FakeDriverTest {
protected:
  PackagePtr package = load(glaManifest());
  GlaCall call;
};
} // namespace

static ejk_error_code codeOf(ejk_error *error) {
  ejk_error_code code = ejk_error_get_code(error);
  ejk_error_destroy(error);
  return code;
}

TEST_F(Arguments, NullPointersAreErrors) {
  size_t size = 0;
  int64_t shape[8];
  int32_t rank = 8;
  const char *name = nullptr;
  ejk_package *loaded = nullptr;
  ejk_executable *created = nullptr;
  ejk_entry_info entry = {};
  ejk_tensor_info tensor = {};
  entry.struct_size = sizeof(entry), tensor.struct_size = sizeof(tensor);
  const ejk_package *p = package.get();
  ejk_error *errors[] = {
      ejk_package_load_file(nullptr, &loaded),
      ejk_package_load_file("x", nullptr),
      ejk_package_load_memory(nullptr, 1, &loaded),
      ejk_package_load_memory("", 0, nullptr),
      ejk_package_find_entry(nullptr, "gla", &size),
      ejk_package_find_entry(p, nullptr, &size),
      ejk_package_find_entry(p, "gla", nullptr),
      ejk_entry_get_info(nullptr, 0, &entry),
      ejk_entry_get_info(p, 0, nullptr),
      ejk_entry_get_kernel_name(nullptr, 0, 0, &name),
      ejk_entry_get_kernel_name(p, 0, 0, nullptr),
      ejk_entry_get_input_info(nullptr, 0, 0, &tensor),
      ejk_entry_get_input_info(p, 0, 0, nullptr),
      ejk_entry_get_output_info(nullptr, 0, 0, &tensor),
      ejk_entry_get_output_info(p, 0, 0, nullptr),
      ejk_entry_output_shape(nullptr, 0, call.inputs, 6, 0, shape, &rank),
      ejk_entry_output_shape(p, 0, call.inputs, 6, 0, shape, nullptr),
      ejk_entry_output_shape(p, 0, nullptr, 6, 0, shape, &rank),
      ejk_entry_workspace_bytes(nullptr, 0, call.inputs, 6, &size),
      ejk_entry_workspace_bytes(p, 0, call.inputs, 6, nullptr),
      ejk_entry_workspace_bytes(p, 0, nullptr, 6, &size),
      ejk_entry_check(nullptr, 0, call.inputs, 6, call.outputs, 2),
      ejk_entry_check(p, 0, nullptr, 6, call.outputs, 2),
      ejk_entry_check(p, 0, call.inputs, 6, nullptr, 2),
      ejk_executable_create(nullptr, nullptr, &created),
      ejk_executable_create(p, nullptr, nullptr),
  };
  for (size_t i = 0; i < std::size(errors); ++i) {
    EXPECT_NE(std::string(ejk_error_message(errors[i])).find("NULL"), std::string::npos) << i;
    EXPECT_EQ(codeOf(errors[i]), EJK_ERROR_INVALID_ARGUMENT) << i;
  }
  EXPECT_NE(codeOf(ejk_package_load_memory(nullptr, 0, &loaded)), EJK_OK);
  EXPECT_EQ(loaded, nullptr);
  EXPECT_EQ(created, nullptr);
  EXPECT_STREQ(ejk_package_manifest(nullptr), "");
  EXPECT_STREQ(ejk_package_arch(nullptr), "");
  EXPECT_EQ(ejk_package_entry_count(nullptr), 0u);
  EXPECT_EQ(ejk_executable_uses_binary(nullptr), 0);
  EXPECT_STREQ(ejk_error_message(nullptr), "");
  EXPECT_EQ(ejk_package_entry_count(p), 1u);
  EXPECT_NE(std::string(ejk_package_manifest(p)).find("\"gla\""), std::string::npos);
}

TEST_F(Arguments, IndicesOutOfRangeAreErrors) {
  size_t size = 0;
  int64_t shape[8];
  int32_t rank = 8;
  const char *name = nullptr;
  ejk_tensor_info tensor = {};
  ejk_entry_info entry = {};
  entry.struct_size = sizeof(entry), tensor.struct_size = sizeof(tensor);
  const ejk_package *p = package.get();
  ejk_error *errors[] = {
      ejk_entry_get_info(p, 1, &entry),
      ejk_entry_get_kernel_name(p, 1, 0, &name),
      ejk_entry_get_kernel_name(p, 0, 2, &name),
      ejk_entry_get_input_info(p, 1, 0, &tensor),
      ejk_entry_get_input_info(p, 0, 6, &tensor),
      ejk_entry_get_output_info(p, 0, 2, &tensor),
      ejk_entry_output_shape(p, 1, call.inputs, 6, 0, shape, &rank),
      ejk_entry_output_shape(p, 0, call.inputs, 6, 2, shape, &rank),
      ejk_entry_workspace_bytes(p, SIZE_MAX, call.inputs, 6, &size),
      ejk_entry_check(p, 1, call.inputs, 6, call.outputs, 2),
  };
  for (size_t i = 0; i < std::size(errors); ++i) {
    EXPECT_NE(std::string(ejk_error_message(errors[i])).find("is out of range"), std::string::npos)
        << i;
    EXPECT_EQ(codeOf(errors[i]), EJK_ERROR_INVALID_ARGUMENT) << i;
  }
  EXPECT_EQ(take(ejk_entry_output_shape(p, 0, call.inputs, 6, 0, nullptr, &rank)),
            "the shape array holds 0 dimensions, but output 'o' has 4");
  rank = 2;
  EXPECT_EQ(take(ejk_entry_output_shape(p, 0, call.inputs, 6, 0, shape, &rank)),
            "the shape array holds 2 dimensions, but output 'o' has 4");
  entry.struct_size = tensor.struct_size = 8;
  EXPECT_NE(take(ejk_entry_get_info(p, 0, &entry)).find("struct_size is 8"), std::string::npos);
  EXPECT_NE(take(ejk_entry_get_input_info(p, 0, 0, &tensor)).find("struct_size is 8"),
            std::string::npos);
}

// Whatever shapes and counts an earlier function would refuse, so does each.
TEST_F(Arguments, WrongInputsAreErrorsEverywhere) {
  size_t size = 0;
  int64_t shape[8];
  int32_t rank = 8;
  call.shapes[1][1] = 100;
  EXPECT_NE(take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 0, shape, &rank)), "");
  EXPECT_NE(take(ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &size)), "");
  call.shapes[1][1] = 128;
  call.q().shape = nullptr;
  EXPECT_EQ(call.check(package.get()), "input 'q': the shape is NULL");
  call.q().shape = call.shapes[0].data();
  call.outputs[0] = nullptr;
  EXPECT_EQ(call.check(package.get()), "output 'o': the tensor is NULL");
}

// The error for glaManifest with one value replaced, when its entry is used.
static std::string useError(const char *pointer, json value, GlaCall &call) {
  json manifest = glaManifest();
  manifest[json::json_pointer(pointer)] = std::move(value);
  std::string message;
  PackagePtr package = load(pack(manifest), message);
  if (!package)
    return message;
  size_t size = 0;
  int64_t shape[8];
  int32_t rank = 8;
  message = take(ejk_entry_workspace_bytes(package.get(), 0, call.inputs, 6, &size));
  if (message.empty())
    message = take(ejk_entry_output_shape(package.get(), 0, call.inputs, 6, 0, shape, &rank));
  return message.empty() ? call.check(package.get()) : message;
}

TEST_F(Arguments, FormulasWithoutAValue) {
  const json overflow = {"*", "T", INT64_MAX}, zero = {"mod", "T", 0};
  EXPECT_EQ(useError("/entries/0/outputs/0/shape/1", zero, call),
            "output 'o': dimension 1, mod(T, 0), is unusable: it divides by zero "
            "('q' gave T = 128)");
  EXPECT_NE(useError("/entries/0/outputs/0/shape/1", {"-", "T", 129}, call).find("is negative"),
            std::string::npos);
  EXPECT_NE(useError("/entries/0/inputs/5/shape/0", zero, call).find("formula has no value"),
            std::string::npos);
  EXPECT_NE(useError("/entries/0/constraints/0/expr", overflow, call), "");
  EXPECT_EQ(useError("/entries/0/constraints/0/expr", 7, call),
            "the key/value head count Hkv must divide the query head count H");
  for (json bytes : {overflow, zero, json(-1)})
    EXPECT_NE(useError("/entries/0/workspace/1/bytes", bytes, call).find("workspace 'states'"),
              std::string::npos);
  EXPECT_NE(useError("/entries/0/workspace/1/bytes", INT64_MAX, call).find("overflows"),
            std::string::npos);
  json halves = glaManifest()["entries"][0]["workspace"];
  halves[0]["bytes"] = halves[1]["bytes"] = int64_t(1) << 62;
  EXPECT_NE(useError("/entries/0/workspace", halves, call).find("overflows"), std::string::npos);
  int32_t offsets[] = {0, 1, 2, 128};
  call.cu().data = offsets;
  call.cu().device = {kDLCPU, 0};
  EXPECT_EQ(useError("/entries/0/inputs/4/total", zero, call),
            "input 'cu_seqlens': its last entry's formula has no value: it divides by zero");
  int64_t more = INT64_MIN + 1;
  call.shapes[4][0] = 4;
  EXPECT_NE(useError("/entries/0/inputs/4/shape/0", {"+", "N", more}, call), "");
}

TEST_F(Arguments, AddressesAtTheEndOfTheAddressSpace) {
  call.q().data = reinterpret_cast<void *>(UINTPTR_MAX - 15);
  EXPECT_EQ(call.check(package.get()), "input 'q': it reaches past the end of the address space");
  call.q().byte_offset = 32;
  EXPECT_EQ(call.check(package.get()), "input 'q': it reaches past the end of the address space");
  GlaCall other;
  other.o().data = nullptr;
  EXPECT_EQ(other.check(package.get()), "output 'o': data is NULL");
  GlaCall wide; // its elements can be counted, its bytes not
  for (int i : {0, 1, 2, 3, 6})
    wide.shapes[i][1] = int64_t(1) << 53;
  EXPECT_EQ(wide.check(package.get()), "input 'q': its size overflows 64 bits");
}

TEST_F(Arguments, NoOffsetsAtAll) {
  json manifest = glaManifest();
  manifest["entries"][0]["inputs"][4]["shape"] = {"N"};
  PackagePtr loose = load(manifest);
  int32_t none = 0;
  call.shapes[4][0] = call.shapes[5][0] = call.shapes[7][0] = 0;
  call.cu().data = &none;
  call.cu().device = {kDLCPU, 0};
  EXPECT_EQ(call.check(loose.get()), "");
}

TEST_F(Arguments, InfoLogsAreShown) {
  std::string message;
  PackagePtr bad = load(ejk::serializePackage(copyManifest("copy_bytes_a3"),
                                              {{ejk::Image::Kind::Ptx, "BAD \x1b[31m INFO"}}),
                        message);
  ejk_executable *executable = nullptr;
  message = take(ejk_executable_create(bad.get(), nullptr, &executable));
  EXPECT_NE(message.find("driver's log:\n\\x1b[31m"), std::string::npos) << message;
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST_F(Arguments, BinariesAlone) {
  fake->major = 8;
  std::string message;
  PackagePtr binary =
      load(ejk::serializePackage(copyManifest("copy_bytes_a3"), {{ejk::Image::Kind::Cubin, "BAD"}}),
           message);
  ejk_executable_options options = {};
  options.struct_size = sizeof(options);
  options.prefer_ptx = 1;
  ejk_executable *executable = nullptr;
  message = take(ejk_executable_create(binary.get(), &options, &executable));
  EXPECT_NE(message.find("binary image"), std::string::npos) << message;
}
