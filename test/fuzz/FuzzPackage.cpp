//===- FuzzPackage.cpp - any bytes as a kernel package --------------------===//
//
// Loads the bytes through the C API, reads all that it tells, and checks calls
// of several sizes, as before a launch. The mutator changes the manifest's
// JSON and mends sizes and checksum, so that most mutants are read to the end.
//
//===----------------------------------------------------------------------===//

#include "JsonMutator.h"
#include "MemoryBound.h"

#include "ejk-launch/Info.h"
#include "ejk/package_format.h"
#include "ejk/runtime.h"
#include "package/Names.h"
#include "package/Package.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdlib>
#include <cstring>

using namespace ejk;

static void require(bool condition) {
  if (!condition)
    std::abort();
}

// An error is destroyed; its message is text that a terminal may be shown.
static bool isFine(ejk_error *error) {
  if (!error)
    return true;
  require(*ejk_error_message(error) != 0);
  require(!textProblem(ejk_error_message(error)));
  ejk_error_destroy(error);
  return false;
}

static DLDataType dlpackType(DataType type) {
  uint8_t bits = uint8_t(8 * dataTypeSize(type));
  bool isInteger = type == DataType::I32 || type == DataType::I64;
  return {uint8_t(type == DataType::BF16 ? kDLBfloat : isInteger ? kDLInt : kDLFloat), bits, 1};
}

namespace {
/// Tensors of an entry, for one choice of sizes; all at addresses where nothing
/// is, but for cu_seqlens, which the host reads.
struct Operands {
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor *> pointers;

  void add(const std::vector<TensorSpec> &specs, const int64_t *symbols, size_t first,
           const void *offsets) {
    size_t count = specs.size();
    shapes.resize(count);
    tensors.resize(count);
    for (size_t i = 0; i < count; ++i) {
      for (const Dim &dim : specs[i].dims) {
        int64_t size = 0;
        dim.expr.evaluate(symbols, size);
        shapes[i].push_back(size);
      }
      DLTensor &tensor = tensors[i];
      tensor = {};
      tensor.data = reinterpret_cast<void *>((first + i + 1) << 40);
      tensor.device = {kDLCUDA, 0};
      // Few offsets are there to be read.
      if (specs[i].role == cuSeqlensRole && shapes[i].size() == 1 && shapes[i][0] <= 8) {
        tensor.data = const_cast<void *>(offsets);
        tensor.device.device_type = kDLCPU;
      }
      tensor.ndim = int32_t(shapes[i].size());
      tensor.dtype = dlpackType(specs[i].dtype);
      tensor.shape = shapes[i].data();
      pointers.push_back(&tensor);
    }
  }
};
} // namespace

static void tryCalls(const ejk_package *package, size_t index, const Entry &entry) {
  alignas(4096) static const char offsets[4096] = {};
  for (int64_t base : {0, 1, 3, 128, 100000}) {
    int64_t symbols[EJK_MAX_SYMBOLS];
    for (size_t i = 0; i < EJK_MAX_SYMBOLS; ++i)
      symbols[i] = base == 3 ? int64_t(i % 4) : base;
    Operands inputs, outputs;
    inputs.add(entry.inputs, symbols, 0, offsets);
    outputs.add(entry.outputs, symbols, entry.inputs.size(), offsets);
    const DLTensor *const *in = inputs.pointers.data();
    size_t count = inputs.pointers.size(), bytes;
    isFine(ejk_entry_workspace_bytes(package, index, in, count, &bytes));
    for (size_t o = 0; o < entry.outputs.size(); ++o) {
      int64_t shape[EJK_MAX_RANK];
      int32_t rank = EJK_MAX_RANK;
      if (isFine(ejk_entry_output_shape(package, index, in, count, o, shape, &rank)))
        require(rank == int32_t(entry.outputs[o].dims.size()));
    }
    isFine(ejk_entry_check(package, index, in, count, outputs.pointers.data(),
                           outputs.pointers.size()));
  }
}

static void lookAt(const ejk_package *package, const Package &parsed) {
  std::string description = describePackage(parsed);
  require(escapedLines(description) == description);
  // A frame of so many bytes holds at most 32 MiB.
  for (const Image &image : parsed.manifest.images)
    if (image.stored <= 1024)
      if (Result<std::string> code = parsed.codeOf(image))
        require(code->size() == image.size);
  require(ejk_package_entry_count(package) == parsed.manifest.entries.size());
  for (size_t e = 0; e < parsed.manifest.entries.size(); ++e) {
    ejk_entry_info info = {};
    info.struct_size = sizeof(info);
    require(isFine(ejk_entry_get_info(package, e, &info)));
    size_t found;
    require(isFine(ejk_package_find_entry(package, info.name, &found)) && found == e);
    ejk_tensor_info tensor = {};
    tensor.struct_size = sizeof(tensor);
    for (size_t i = 0; i < info.num_inputs; ++i)
      require(isFine(ejk_entry_get_input_info(package, e, i, &tensor)) &&
              !nameProblem(tensor.name));
    for (size_t o = 0; o < info.num_outputs; ++o)
      require(isFine(ejk_entry_get_output_info(package, e, o, &tensor)) &&
              !nameProblem(tensor.name));
    for (size_t k = 0; k < info.num_kernels; ++k) {
      const char *name = nullptr;
      require(isFine(ejk_entry_get_kernel_name(package, e, k, &name)) && !nameProblem(name));
    }
    tryCalls(package, e, parsed.manifest.entries[e]);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryBound bound(size);
  ejk_package *package = nullptr;
  bool loads = isFine(ejk_package_load_memory(data, size, &package));
  Result<Package> parsed = readPackage({reinterpret_cast<const char *>(data), size});
  require(loads == bool(parsed));
  if (loads)
    lookAt(package, *parsed);
  ejk_package_destroy(package);
  return 0;
}

#ifdef EJK_FUZZING
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

// Sizes and checksum that fit the parts; in most cases, so do the images, some of which are compressed.
static std::string assemble(uint32_t version, std::string manifest, const std::string &payload,
                            std::mt19937 &random) {
  nlohmann::json root = nlohmann::json::parse(manifest, nullptr, false);
  if (root.is_object() && random() % 8) {
    root["format"] = EJK_PACKAGE_FORMAT_NAME;
    root["version"] = version;
    nlohmann::json image = {{"kind", "ptx"}, {"offset", 0}, {"size", payload.size()}};
    if (version > 4 && random() % 2) {
      const uint64_t sizes[] = {payload.size(), 300, 1 + random() % 4096, EJK_MAX_PAYLOAD_SIZE};
      image["size"] = sizes[random() % 4];
      image["compressed"] = payload.size();
    }
    root["images"] = {image};
    manifest = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::string body = manifest + payload;
  ejk_package_header header = {};
  std::memcpy(header.magic, EJK_PACKAGE_MAGIC, EJK_PACKAGE_MAGIC_SIZE);
  header.version = version;
  header.header_size = sizeof(header);
  header.manifest_size = manifest.size();
  header.payload_size = payload.size();
  header.checksum = XXH3_64bits(body.data(), body.size());
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + body;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::mt19937 random(seed);
  ejk_package_header header;
  if (size < sizeof(header) || random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(&header, data, sizeof(header));
  std::string body(reinterpret_cast<const char *>(data) + sizeof(header), size - sizeof(header));
  size_t cut = std::min<size_t>(header.manifest_size, body.size());
  std::string manifest = body.substr(0, cut), payload = body.substr(cut);
  if (payload.empty() || payload.size() > 64)
    payload = "x";
  if (random() % 4 == 0) {
    payload.resize(payload.size() + 8);
    payload.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(&payload[0]), payload.size() - 8,
                                    payload.size()));
  }
  uint32_t version = random() % 8 ? header.version : 1 + uint32_t(random() % EJK_PACKAGE_VERSION);
  if (random() % 8) {
    for (unsigned edits = 1 + random() % 3; edits; --edits)
      manifest = fuzz::mutateJson(manifest, random);
  } else {
    manifest.resize(manifest.size() + 16);
    manifest.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(&manifest[0]),
                                     manifest.size() - 16, manifest.size()));
  }
  std::string mutant = assemble(version, manifest, payload, random);
  if (mutant.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, mutant.data(), mutant.size());
  return mutant.size();
}
#endif
