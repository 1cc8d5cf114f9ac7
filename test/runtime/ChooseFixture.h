//===- ChooseFixture.h - an entry with several variants ---------*- C++ -*-===//

#ifndef EJK_TEST_RUNTIME_CHOOSEFIXTURE_H
#define EJK_TEST_RUNTIME_CHOOSEFIXTURE_H

#include "FakeDriver.h"
#include "TestPackage.h"

namespace ejk::test {
/// glaManifest's entry in three ways: in chunks for as many query as key/value heads, in chunks
/// for any, and by steps.
inline nlohmann::json variantsManifest() {
  nlohmann::json manifest = glaManifest();
  nlohmann::json &entry = manifest["entries"][0];
  nlohmann::json step = {{"schedule", "step"}, {"workspace", entry["workspace"]}};
  step["launches"] = entry["launches"];
  entry.erase("workspace");
  entry.erase("launches");
  auto kernel = [](const char *name, int shared) {
    return nlohmann::json{{"kernel", name},
                          {"block", {128, 1, 1}},
                          {"shared_bytes", shared},
                          {"grid", "H"},
                          {"args", {{{"input", 0}}, {{"output", 0}}}}};
  };
  nlohmann::json direct = {{"schedule", "chunk"},
                           {"needs", {"=", "H", "Hkv"}},
                           {"when", {">=", "T", 64}},
                           {"launches", {kernel("direct_a2", 1024)}}};
  nlohmann::json grouped = {{"schedule", "chunk"},
                            {"when", {">=", "T", 64}},
                            {"workspace", {{{"name", "dk"}, {"bytes", {"*", "T", 1000}}}}},
                            {"launches", {kernel("grouped_a2", 1024)}}};
  nlohmann::json split = {{"schedule", "split"},
                          {"when", {"<", {"*", "N", "H"}, "device.multiprocessors"}},
                          {"launches", {kernel("split_a2", 1024)}}};
  entry["variants"] = {split, direct, grouped, step};
  return manifest;
}

class Choose : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    fake->multiprocessors = 10;
  }
  void open(const nlohmann::json &manifest) {
    package = load(manifest);
    ASSERT_NE(package, nullptr);
    ASSERT_EQ(take(ejk_executable_create(package.get(), nullptr, &executable)), "");
  }
  void TearDown() override { ejk_executable_destroy(executable); }

  /// A call with `rows` rows of `heads` heads, `groups` of them for keys and values.
  void resize(GlaCall &call, int64_t rows, int64_t heads, int64_t groups) {
    for (int i : {0, 1, 2, 3, 6})
      call.shapes[i][1] = rows, call.shapes[i][2] = heads;
    call.shapes[1][2] = call.shapes[2][2] = groups;
    call.shapes[5][1] = call.shapes[7][1] = heads;
  }

  std::string choose(GlaCall &call, ejk_choice &choice, const char *schedule = nullptr) {
    choice = {};
    choice.struct_size = sizeof(choice);
    return take(ejk_executable_choose(executable, 0, call.inputs, 6, schedule, &choice));
  }

  PackagePtr package;
  ejk_executable *executable = nullptr;
};
} // namespace ejk::test

#endif // EJK_TEST_RUNTIME_CHOOSEFIXTURE_H
