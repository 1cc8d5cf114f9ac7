//===- WriteTestPackage.cpp - puts test packages into files ---------------===//
//
// ejk-write-test-package FOLDER: packages whose kernels the fake driver runs,
// and real_copy.ejk and real-tensor-maps.ejk for a device.
//
//===----------------------------------------------------------------------===//

#include "CpuFixture.h"
#include "TestPackage.h"

#include <fstream>

using namespace ejk;

static bool write(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  return bool(file.write(bytes.data(), std::streamsize(bytes.size())));
}

// copy.ejk with one value replaced by what only harms.
static std::string hostile(const char *place, const char *value) {
  nlohmann::json manifest = test::copyManifest("copy_bytes_a3");
  manifest[nlohmann::json::json_pointer(place)] = value;
  return test::pack(manifest);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  std::string folder = argv[1];
  const char *escape = "\033]0;title\a";
  bool written =
      write(folder + "/copy.ejk", test::pack(test::copyManifest("copy_bytes_a3"))) &&
      write(folder + "/gla.ejk", test::pack(test::exampleManifest())) &&
      write(folder + "/number.ejk", test::packFor({"x86-64-v3"})) &&
      write(folder + "/train.ejk", test::pack(test::trainManifest())) &&
      write(folder + "/packed.ejk", test::pack(test::glaManifest())) &&
      write(folder + "/tensor-maps.ejk", test::pack(test::boxesManifest("copy_boxes_a3"))) &&
      write(folder + "/hostile_output.ejk",
            hostile("/entries/0/outputs/0/name", "../../escaped")) &&
      write(folder + "/hostile_kernel.ejk", hostile("/entries/0/launches/0/kernel", escape)) &&
      write(folder + "/hostile_text.ejk", hostile("/producer", escape)) &&
      write(folder + "/real_copy.ejk", test::packRealCopy()) &&
      write(folder + "/real-tensor-maps.ejk", test::packRealBoxes());
  return written ? 0 : 1;
}
