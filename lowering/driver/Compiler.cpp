//===- Compiler.cpp - from MLIR to a kernel package -----------------------===//
#include "lowering/driver/Compiler.h"
#include "lowering/driver/BackEnd.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace ejk;

std::string ejk::printOp(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  os << "\n";
  return text;
}

LogicalResult ejk::derive(ModuleOp module, unsigned order, ArrayRef<std::string> wrt,
                          const SavePolicy &policy) {
  PassManager pm(module.getContext());
  if (order < 2) {
    buildBackwardPipeline(pm, {"", wrt, {}, policy});
    return pm.run(module);
  }
  // What reads saved states has no derivative, so the first derivative saves none.
  SavePolicy first = policy;
  first.gateGradients = GateGradients::suffix;
  SmallVector<std::string> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal())
      functions.push_back(function.getName().str());
  for (const std::string &function : functions) {
    buildBackwardPipeline(pm, {function, wrt, {}, first});
    buildBackwardPipeline(pm, {function + "_vjp", {}, {}, policy});
  }
  if (failed(pm.run(module)))
    return failure();
  for (const std::string &function : functions)
    for (const char *suffix : {"", "_vjp"})
      if (auto earlier = module.lookupSymbol<func::FuncOp>(function + suffix))
        earlier.setPrivate();
  PassManager clean(module.getContext());
  clean.addPass(createSymbolDCEPass());
  return clean.run(module);
}

/// Adds `next`'s way to compute each entry to `manifest`, which has the same entries.
static void addVariants(llvm::json::Object &manifest, llvm::json::Object next, StringRef arch) {
  auto asVariant = [&](llvm::json::Object &entry) {
    llvm::json::Object variant{{"schedule", "step"}, {"arch", arch}};
    for (const char *key : {"workspace", "launches"}) {
      variant[key] = std::move(*entry.get(key));
      entry.erase(key);
    }
    return llvm::json::Array{std::move(variant)};
  };
  llvm::json::Array &entries = *next.getArray("entries");
  llvm::json::Array *known = manifest.getArray("entries");
  for (llvm::json::Value &value : entries) {
    llvm::json::Object &entry = *value.getAsObject();
    // A schedule that has variants of its own names their architecture itself.
    llvm::json::Array variants =
        entry.get("variants") ? std::move(*entry.getArray("variants")) : asVariant(entry);
    if (!known) {
      entry["variants"] = std::move(variants);
      continue;
    }
    auto same = llvm::find_if(*known, [&](llvm::json::Value &other) {
      return other.getAsObject()->getString("name") == entry.getString("name");
    });
    for (llvm::json::Value &variant : variants)
      same->getAsObject()->getArray("variants")->push_back(std::move(variant));
  }
  if (!known)
    manifest = std::move(next);
}

FailureOr<std::string> ejk::compile(ModuleOp module, Stage stage, const CompileOptions &options) {
  std::vector<std::unique_ptr<BackEnd>> backEnds;
  if (!options.arch.empty())
    backEnds.push_back(makeCudaBackEnd(options.arch, options, module.getLoc()));
  for (const std::string &cpu : options.cpus)
    backEnds.push_back(makeCpuBackEnd(cpu, options, module.getLoc()));
  if (llvm::is_contained(backEnds, nullptr))
    return failure();
  if (options.derivatives &&
      failed(derive(module, options.derivatives, options.wrt, options.savePolicy)))
    return failure();
  PassManager pm(module.getContext());
  if (!options.derivatives)
    buildSpecializePipeline(pm);
  if (failed(pm.run(module)) || isCancelled(options))
    return failure();
  if (stage == Stage::scan)
    return printOp(module);
  if (backEnds.empty())
    return module.emitError("is to be compiled for no architecture"), failure();
  if (stage != Stage::package)
    return backEnds.front()->print(module, stage);

  llvm::json::Object manifest;
  std::vector<ImageData> images;
  for (std::unique_ptr<BackEnd> &backEnd : backEnds) {
    // The last one may have the module itself.
    OwningOpRef<ModuleOp> copy =
        backEnd == backEnds.back() ? OwningOpRef<ModuleOp>() : OwningOpRef<ModuleOp>(module.clone());
    FailureOr<BackEnd::Code> code = backEnd->compile(copy ? *copy : module);
    if (failed(code) || isCancelled(options))
      return failure();
    if (backEnds.size() == 1)
      manifest = std::move(code->manifest);
    else
      addVariants(manifest, std::move(code->manifest), backEnd->arch());
    llvm::move(code->images, std::back_inserter(images));
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(manifest));
  std::string package = serializePackage(nlohmann::json::parse(text), images);
  // As whoever loads it will.
  if (Result<Package> loaded = readPackage(package); !loaded)
    return module.emitError() << loaded.error().message, failure();
  return package;
}
