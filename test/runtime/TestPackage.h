//===- TestPackage.h - packages, tensors and errors for tests ---*- C++ -*-===//

#ifndef EJK_TEST_RUNTIME_TESTPACKAGE_H
#define EJK_TEST_RUNTIME_TESTPACKAGE_H

#include "ejk/runtime.h"

#include "package/Package.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace ejk::test {

/// A packed recurrence with grouped heads, a state in and out, two kernels and
/// a workspace: everything that a manifest can say.
nlohmann::json glaManifest();

/// One entry, `copy`: x [R, 4] f32 to y, by the kernel of that name.
nlohmann::json copyManifest(const std::string &kernel);

/// The same with a kernel for a real device.
std::string packRealCopy();

/// The same, `copy_boxes`, of rows of 32 numbers that come by tensor map.
nlohmann::json boxesManifest(const std::string &kernel);
std::string packRealBoxes();

/// A package for examples/c's launches whose kernel fills o with 128.
nlohmann::json exampleManifest();

/// A package for examples/c/train.c: a layer of two parameters, and its derivative.
nlohmann::json trainManifest();

std::string pack(const nlohmann::json &manifest);

struct PackageDeleter {
  void operator()(ejk_package *package) const { ejk_package_destroy(package); }
};
using PackagePtr = std::unique_ptr<ejk_package, PackageDeleter>;

/// Loads through the C API; null and `message` on failure.
PackagePtr load(const std::string &bytes, std::string &message);
PackagePtr load(const nlohmann::json &manifest);

/// The message of an owned error, which is destroyed; "" for success.
std::string take(ejk_error *error);

inline constexpr DLDataType f32{kDLFloat, 32, 1}, bf16{kDLBfloat, 16, 1}, f16{kDLFloat, 16, 1},
    i32{kDLInt, 32, 1}, i64{kDLInt, 64, 1};

/// Valid operands of glaManifest's entry, to be spoiled one at a time: N = 3
/// sequences in T = 128 rows, H = 4, Hkv = 2. Addresses are made up.
struct GlaCall {
  std::vector<int64_t> shapes[8];
  DLTensor tensors[8]; ///< q, k, v, g, cu_seqlens, h0; o, ht
  const DLTensor *inputs[6], *outputs[2];
  ejk_launch_params params;

  GlaCall();
  GlaCall(const GlaCall &) = delete;
  DLTensor &q() { return tensors[0]; }
  DLTensor &k() { return tensors[1]; }
  DLTensor &v() { return tensors[2]; }
  DLTensor &g() { return tensors[3]; }
  DLTensor &cu() { return tensors[4]; }
  DLTensor &h0() { return tensors[5]; }
  DLTensor &o() { return tensors[6]; }
  DLTensor &ht() { return tensors[7]; }

  /// ejk_entry_check's message.
  std::string check(const ejk_package *package);
};

} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_TESTPACKAGE_H
