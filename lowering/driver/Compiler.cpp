//===- Compiler.cpp - from MLIR to a kernel package -----------------------===//
#include "lowering/driver/Compiler.h"
#include "lowering/Passes.h"
#include "lowering/driver/Pipelines.h"
#include "lowering/host/ManifestWriter.h"
#include "lowering/ptx/EmitPTX.h"
#include "lowering/target/Target.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "runtime/package/Package.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace ejk;

static std::string print(Operation *op) {
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

FailureOr<std::string> ejk::compile(ModuleOp module, Stage stage, const CompileOptions &options) {
  const Target *target = findTarget(options.arch, module.getLoc());
  if (!target)
    return failure();
  auto cancelled = [&] { return options.cancelled && options.cancelled(); };
  if (options.derivatives &&
      failed(derive(module, options.derivatives, options.wrt, options.savePolicy)))
    return failure();
  PassManager pm(module.getContext());
  if (!options.derivatives)
    buildSpecializePipeline(pm);
  ToGPUOptions toGPU = {options.arch,       options.schedule, options.fuse,
                        options.saveStates, options.roles,    options.roundComputed};
  if (stage == Stage::tile || stage == Stage::plan)
    buildToTilePipeline(pm, toGPU);
  if (stage == Stage::plan)
    buildPlanPipeline(pm, toGPU);
  if (stage >= Stage::gpu)
    buildToGPUPipeline(pm, toGPU);
  if (failed(pm.run(module)) || cancelled())
    return failure();
  if (stage <= Stage::gpu)
    return print(module);

  // The manifest is read off the launches before the kernels change.
  FailureOr<llvm::json::Object> manifest = writeManifest(module, *target);
  if (failed(manifest))
    return failure();
  PassManager lower(module.getContext());
  buildToNVVMPipeline(lower);
  if (failed(lower.run(module)) || cancelled())
    return failure();
  if (stage == Stage::nvvm)
    return print(module);
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  if (stage == Stage::llvm)
    return emitLLVM(kernels, *target);
  FailureOr<std::string> ptx = emitPTX(kernels, *target);
  if (failed(ptx) || stage == Stage::ptx)
    return ptx;
  if (cancelled())
    return failure();

  auto image = [&](Image::Kind kind, std::string bytes) {
    return ImageData{kind, std::move(bytes), target->name.str(), !target->isPortable()};
  };
  std::vector<ImageData> images = {image(Image::Kind::Ptx, *ptx)};
  std::optional<std::string> ptxas;
  if (options.cubin != CompileOptions::Cubin::never)
    ptxas = findPtxas();
  if (ptxas) {
    FailureOr<std::optional<std::string>> cubin =
        assemble(module.getLoc(), *ptxas, *ptx, *target,
                 /*mayBeUnknown=*/options.cubin == CompileOptions::Cubin::automatic);
    if (failed(cubin))
      return failure();
    if (*cubin)
      images.push_back(image(Image::Kind::Cubin, std::move(**cubin)));
  } else if (options.cubin == CompileOptions::Cubin::always) {
    return module.emitError("ptxas was not found in $CUDA_HOME/bin, on PATH or in "
                            "/usr/local/cuda/bin; install CUDA's compiler, or leave the cubin out"),
           failure();
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(*manifest));
  std::string package = serializePackage(nlohmann::json::parse(text), images);
  // As whoever loads it will.
  if (Result<Package> loaded = readPackage(package); !loaded)
    return module.emitError() << loaded.error().message, failure();
  return package;
}
