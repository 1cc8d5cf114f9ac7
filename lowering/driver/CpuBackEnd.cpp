//===- CpuBackEnd.cpp - from scans to machine code for CPUs ---------------===//
#include "lowering/cpu/CpuImage.h"
#include "lowering/cpu/EmitCpu.h"
#include "lowering/driver/BackEnd.h"
#include "lowering/driver/KeepCalled.h"
#include "lowering/driver/Pipelines.h"
#include "lowering/host/ManifestWriter.h"
#include "lowering/target/CpuTarget.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace ejk;

namespace {
class CpuBackEnd : public BackEnd {
public:
  CpuBackEnd(const CpuTarget &target, const CompileOptions &options)
      : target(target), options(options) {}

  StringRef arch() const override { return target.name; }

  FailureOr<std::string> print(ModuleOp module, Stage stage) override {
    if (stage == Stage::tile || stage == Stage::plan || stage == Stage::schedule ||
        stage == Stage::nvvm || stage == Stage::ptx)
      return module.emitError("a CPU's kernels have no such stage; they have --emit=gpu, for "
                              "kernels and launches, --emit=llvm and --emit=asm"),
             failure();
    if (failed(lower(module)))
      return failure();
    if (stage == Stage::gpu)
      return printOp(module);
    if (failed(lowerToLLVM(module)))
      return failure();
    return emitCpuText(kernelsOf(module), target,
                       stage == Stage::llvm ? CpuText::llvm : CpuText::assembly);
  }

  FailureOr<Code> compile(ModuleOp module) override {
    if (failed(lower(module)))
      return failure();
    FailureOr<llvm::json::Object> manifest = writeManifest(module, target.name, "cpu");
    if (failed(manifest))
      return failure();
    if (options.expectedCalls &&
        failed(keepCalled(module, *manifest, image("no code yet\n", {{"none", 0}}), options.expectedCalls)))
      return failure();
    if (failed(lowerToLLVM(module)))
      return failure();
    FailureOr<std::string> object =
        emitCpuObject(kernelsOf(module), target, [&] { return isCancelled(options); });
    if (failed(object) || isCancelled(options))
      return failure();
    FailureOr<CpuImage> laidOut = layOutCpuImage(module.getLoc(), *object);
    if (failed(laidOut))
      return failure();
    Code code{std::move(*manifest), {}};
    code.images.push_back(image(std::move(laidOut->bytes), std::move(laidOut->kernels)));
    return code;
  }

private:
  LogicalResult lower(ModuleOp module) {
    PassManager pm(module.getContext());
    buildToCPUPipeline(pm, target.name, options.schedule);
    return success(succeeded(pm.run(module)) && !isCancelled(options));
  }

  LogicalResult lowerToLLVM(ModuleOp module) {
    PassManager pm(module.getContext());
    buildCPUToLLVMPipeline(pm, target.multipliesBf16);
    return success(succeeded(pm.run(module)) && !isCancelled(options));
  }

  ImageData image(std::string bytes, std::vector<std::pair<std::string, uint64_t>> kernels) {
    return {Image::Kind::Cpu, std::move(bytes), target.name.str(), /*archSpecific=*/false,
            std::move(kernels)};
  }

  static gpu::GPUModuleOp kernelsOf(ModuleOp module) {
    return *module.getOps<gpu::GPUModuleOp>().begin();
  }

  const CpuTarget &target;
  const CompileOptions &options;
};
} // namespace

std::unique_ptr<BackEnd> ejk::makeCpuBackEnd(StringRef arch, const CompileOptions &options,
                                             Location loc) {
  if (const CpuTarget *target = findCpuTarget(arch))
    return std::make_unique<CpuBackEnd>(*target, options);
  emitError(loc) << "no CPU architecture is called '" << arch << "'; there are:\n"
                 << describeCpuTargets();
  return nullptr;
}
