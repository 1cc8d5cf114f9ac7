//===- WriteCorpus.cpp - the seeds of the fuzz targets --------------------===//
//
// ejk-write-fuzz-corpus FOLDER: writes FOLDER/package, FOLDER/safetensors and
// FOLDER/npy.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include "io/TensorFile.h"

#include <cstdio>

using namespace ejk;
using namespace ejk::test;

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  std::string folder = argv[1];
  std::vector<OutputFile> files;
  auto add = [&](const std::string &name, std::string bytes) {
    files.push_back({folder + "/" + name, std::move(bytes)});
  };
  add("package/gla.ejk", pack(glaManifest()));
  add("package/copy.ejk", pack(copyManifest("copy_bytes_a3")));
  add("package/tensor-maps.ejk", pack(boxesManifest("copy_boxes_a3")));
  add("package/train.ejk", pack(trainManifest()));
  add("package/example.ejk", pack(exampleManifest()));
  add("package/compressed.ejk", serializePackage(copyManifest("copy_bytes_a3"),
                                                 {{Image::Kind::Ptx, std::string(300, 'x')}}));

  std::vector<HostTensor> tensors = {
      fromDoubles("x", DataType::F32, {2, 3}, {1, 2, 3, 4, 5, 6}),
      fromDoubles("h", DataType::BF16, {1, 2}, {1, 2}),
      fromDoubles("i", DataType::I64, {2}, {0, 7}),
      fromDoubles("empty", DataType::F16, {0, 4}, {}),
      fromDoubles("scalar", DataType::F64, {}, {1}),
      fromDoubles("n", DataType::I32, {1}, {3}),
  };
  add("safetensors/all.safetensors", serializeSafetensors(tensors));
  add("safetensors/none.safetensors", serializeSafetensors({}));
  add("safetensors/one.safetensors", serializeSafetensors({tensors[0]}));
  for (const HostTensor &tensor : tensors)
    if (Result<std::string> bytes = serializeNpy(tensor))
      add("npy/" + tensor.name + ".npy", *bytes);
  std::string error = writeFiles(files);
  std::fprintf(stderr, "%s", error.c_str());
  return error.empty() ? 0 : 1;
}
