//===- RefusalTest.cpp - what is wrong is refused, wherever it is --------===//

#include "TestPackage.h"

#include "ejk/package_format.h"
#include "ejk/runtime.h"

#include <gtest/gtest.h>

using namespace ejk;
using namespace ejk::test;
using nlohmann::json;

static std::string errorOf(const json &manifest) {
  Result<Package> package = readPackage(pack(manifest));
  return package ? "" : package.error().message;
}

// What was read before the fault must not be taken for all there is.
TEST(Refusal, ConstraintsThatAreNoArray) {
  json manifest = glaManifest();
  manifest["entries"][0]["constraints"] = 3;
  EXPECT_NE(errorOf(manifest).find("constraints: expected an array"), std::string::npos);
}

TEST(Refusal, ManifestsWithoutAFormat) {
  Result<Manifest> manifest = parseManifest("{}", 0);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().message, "format: is missing");
}

TEST(Refusal, ExpressionsThatAreTooLong) {
  json manifest = glaManifest(), sum = 1;
  // Not deep: pairs of pairs.
  for (int level = 0; level < 12; ++level)
    sum = json::array({"+", sum, sum});
  manifest["entries"][0]["constraints"][0]["expr"] = sum;
  EXPECT_NE(errorOf(manifest).find("too long"), std::string::npos);
}

// As many bytes as a header has are a header, of which the rest is missing.
TEST(Refusal, HeaderAlone) {
  std::string bytes = pack(glaManifest()).substr(0, sizeof(ejk_package_header));
  Result<Package> package = readPackage(bytes);
  ASSERT_FALSE(package);
  EXPECT_NE(package.error().message.find("its header promises"), std::string::npos)
      << package.error().message;
}

TEST(Refusal, EachNullOfFindEntry) {
  std::string bytes = pack(glaManifest());
  ejk_package *package = nullptr;
  ASSERT_EQ(ejk_package_load_memory(bytes.data(), bytes.size(), &package), nullptr);
  size_t entry = 0;
  for (ejk_error *error : {ejk_package_find_entry(nullptr, "gla", &entry),
                           ejk_package_find_entry(package, nullptr, &entry),
                           ejk_package_find_entry(package, "gla", nullptr)}) {
    EXPECT_NE(error, nullptr);
    ejk_error_destroy(error);
  }
  ejk_package_destroy(package);
}
