//===- CudaBackEnd.cpp - from scans to PTX and machine code for GPUs ------===//
#include "lowering/Passes.h"
#include "lowering/draw/DrawSchedule.h"
#include "lowering/driver/BackEnd.h"
#include "lowering/driver/KeepCalled.h"
#include "lowering/driver/Pipelines.h"
#include "lowering/host/ManifestWriter.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/ptx/EmitPTX.h"
#include "lowering/target/Target.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace ejk;

namespace {
class CudaBackEnd : public BackEnd {
public:
  CudaBackEnd(const Target &target, const CompileOptions &options)
      : target(target), options(options) {}

  StringRef arch() const override { return target.name; }

  FailureOr<std::string> print(ModuleOp module, Stage stage) override {
    if (stage == Stage::assembly)
      return module.emitError("--emit=asm is a CPU's; a GPU's is --emit=ptx"), failure();
    if (failed(lower(module, stage)))
      return failure();
    if (stage == Stage::schedule)
      return drawSchedules(module);
    if (stage <= Stage::gpu)
      return printOp(module);
    if (failed(lowerToNVVM(module)))
      return failure();
    if (stage == Stage::nvvm)
      return printOp(module);
    return stage == Stage::llvm ? emitLLVM(kernelsOf(module), target)
                                : emitPTX(kernelsOf(module), target);
  }

  FailureOr<Code> compile(ModuleOp module) override {
    if (failed(lower(module, Stage::package)))
      return failure();
    // The manifest is read off the launches before the kernels change.
    FailureOr<llvm::json::Object> manifest = writeManifest(module, target.name, "ptx");
    if (failed(manifest))
      return failure();
    ImageData none = image(Image::Kind::Ptx, "// compiled without code\n");
    if (options.expectedCalls && failed(keepCalled(module, *manifest, none, options.expectedCalls)))
      return failure();
    if (!options.code)
      return Code{std::move(*manifest), {std::move(none)}};
    if (failed(lowerToNVVM(module)))
      return failure();
    FailureOr<std::string> ptx =
        emitPTX(kernelsOf(module), target, [&] { return isCancelled(options); });
    if (failed(ptx) || isCancelled(options))
      return failure();
    Code code{std::move(*manifest), {}};
    code.images.push_back(image(Image::Kind::Ptx, *ptx));
    if (failed(addCubin(module, code, *ptx)))
      return failure();
    return code;
  }

private:
  LogicalResult lower(ModuleOp module, Stage stage) {
    ToGPUOptions toGPU = {target.name.str(),     options.schedule,          options.fuse,
                          options.saveStates,    options.warpSpecialize,    options.partitionWarps,
                          options.roundComputed, options.roundExponentials, options.twoTermStates,
                          options.twoTerms,      options.f32Matmuls,        options.byGates};
    PassManager pm(module.getContext());
    if (holdsPlans(module)) {
      pm.addPass(createCheckRaces());
    } else {
      buildToTilePipeline(pm, toGPU);
      if (stage >= Stage::plan)
        buildPlanPipeline(pm, toGPU);
    }
    if (stage >= Stage::gpu)
      buildPlanToGPUPipeline(pm, toGPU);
    return run(pm, module);
  }

  LogicalResult lowerToNVVM(ModuleOp module) {
    PassManager pm(module.getContext());
    buildToNVVMPipeline(pm);
    return run(pm, module);
  }

  /// The module is verified at the end alone: to verify kernels of thousands of ops after each pass
  /// took a quarter of a compilation. `ejk-opt`, by which passes are tested, does that.
  LogicalResult run(PassManager &pm, ModuleOp module) {
    pm.enableVerifier(false);
    return success(succeeded(pm.run(module)) && succeeded(verify(module)) &&
                   !isCancelled(options));
  }

  static SmallVector<gpu::GPUModuleOp> kernelsOf(ModuleOp module) {
    return llvm::to_vector(module.getOps<gpu::GPUModuleOp>());
  }

  ImageData image(Image::Kind kind, std::string bytes) {
    return {kind, std::move(bytes), target.name.str(), !target.isPortable()};
  }

  /// Machine code beside the PTX, as the options want it and ptxas can.
  LogicalResult addCubin(ModuleOp module, Code &code, StringRef ptx) {
    if (options.cubin == CompileOptions::Cubin::never)
      return success();
    std::optional<std::string> ptxas = findPtxas();
    if (!ptxas) {
      if (options.cubin == CompileOptions::Cubin::automatic)
        return success();
      return module.emitError("ptxas was not found as $EJK_PTXAS, in $CUDA_HOME/bin, on PATH or in "
                              "/usr/local/cuda/bin; install CUDA's compiler, or leave the cubin "
                              "out");
    }
    FailureOr<std::optional<std::string>> cubin =
        assemble(module.getLoc(), *ptxas, ptx, target,
                 /*mayBeUnknown=*/options.cubin == CompileOptions::Cubin::automatic,
                 [&] { return isCancelled(options); });
    if (failed(cubin))
      return failure();
    if (*cubin)
      code.images.push_back(image(Image::Kind::Cubin, std::move(**cubin)));
    return success();
  }

  const Target &target;
  const CompileOptions &options;
};
} // namespace

std::unique_ptr<BackEnd> ejk::makeCudaBackEnd(StringRef arch, const CompileOptions &options,
                                              Location loc) {
  const Target *target = findTarget(arch, loc);
  return target ? std::make_unique<CudaBackEnd>(*target, options) : nullptr;
}
