//===- RunCorpus.cpp - a fuzz target without libFuzzer --------------------===//
//
// Runs the target once for each file that is named, or that lies in a folder
// that is.
//
//===----------------------------------------------------------------------===//

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const fs::directory_entry &entry : fs::directory_iterator(argv[i]))
      files.push_back(entry.path());
  }
  for (const fs::path &file : files) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    std::string text = bytes.str();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
