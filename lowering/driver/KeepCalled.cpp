//===- KeepCalled.cpp - a package for known calls alone -------------------===//
#include "lowering/driver/KeepCalled.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringSet.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace ejk;
namespace json = llvm::json;

/// The manifest as whoever loads the package sees it.
static Result<Package> parse(const json::Object &manifest, const ImageData &code) {
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(json::Object(manifest));
  return readPackage(serializePackage(nlohmann::json::parse(text), {code}));
}

/// The launches of `variant` that may be made, and the names of their kernels in `kernels`. `launches`
/// are the variant's in JSON.
static json::Array keepLaunches(const json::Array &launches, const Variant &variant,
                                const ExpectedCall &call, llvm::StringSet<> &kernels) {
  json::Array kept;
  for (auto [text, launch] : llvm::zip(launches, variant.launches)) {
    int64_t holds = 1;
    // What has no value is left to the call, which says why.
    if (launch.when && !call.symbols.empty() && !launch.when->evaluate(call.symbols.data(), holds) && !holds)
      continue;
    kept.push_back(text);
    kernels.insert(launch.kernel);
  }
  return kept;
}

/// Leaves what `call` needs in an entry.
static void keepVariants(json::Object &text, const Entry &entry, const ExpectedCall &call,
                         llvm::StringSet<> &kernels) {
  json::Array *variants = text.getArray("variants");
  if (!variants) {
    json::Array &launches = *text.getArray("launches");
    launches = keepLaunches(launches, entry.variants.front(), call, kernels);
    return;
  }
  json::Array kept;
  for (size_t index : call.variants) {
    json::Object variant = *(*variants)[index].getAsObject();
    json::Array &launches = *variant.getArray("launches");
    launches = keepLaunches(launches, entry.variants[index], call, kernels);
    if (!call.symbols.empty()) // the calls meet them
      for (const char *condition : {"needs", "when"})
        variant.erase(condition);
    kept.push_back(std::move(variant));
  }
  *variants = std::move(kept);
}

LogicalResult ejk::keepCalled(ModuleOp module, json::Object &manifest, const ImageData &code,
                              const ExpectCalls &expected) {
  Result<Package> package = parse(manifest, code);
  if (!package)
    return module.emitError() << package.error().message, failure();
  llvm::StringSet<> kernels;
  json::Array entries;
  for (auto [text, entry] : llvm::zip(*manifest.getArray("entries"), package->manifest.entries)) {
    ExpectedCall call = expected(package->manifest, entry);
    if (call.variants.empty())
      continue;
    keepVariants(*text.getAsObject(), entry, call, kernels);
    entries.push_back(std::move(text));
  }
  manifest["entries"] = std::move(entries);
  // Launches refer to kernels, and the manifest has all that is asked of them.
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    function.erase();
  for (auto kernelModule : module.getOps<gpu::GPUModuleOp>())
    for (auto kernel : llvm::make_early_inc_range(kernelModule.getOps<gpu::GPUFuncOp>()))
      if (kernel.isKernel() && !kernels.contains(kernel.getName()))
        kernel.erase();
  return success();
}
