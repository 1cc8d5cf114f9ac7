//===- Compiler.cpp - from MLIR to a kernel package -----------------------===//
#include "lowering/driver/Compiler.h"
#include "dialect/ejk/Names.h"
#include "lowering/driver/BackEnd.h"
#include "lowering/driver/MergeManifests.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/select/Alternatives.h"
#include "lowering/target/CpuTarget.h"
#include "lowering/target/DefaultTargets.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "llvm/ADT/StringSet.h"
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

/// How many passes over a whole module this thread is in. One may run pipelines of its own, and counts on
/// what they do.
static thread_local unsigned passesOverModule = 0;

void ejk::cancelPasses(MLIRContext &context, std::function<bool()> cancelled) {
  context.registerActionHandler(
      [cancelled = std::move(cancelled)](function_ref<void()> run, const tracing::Action &action) {
        auto *pass = dyn_cast<PassExecutionAction>(&action);
        Operation *op = pass ? pass->getOp() : nullptr;
        bool isOfModule = op && !op->getParentOp();
        bool isOfKernels = op && (isa<gpu::GPUModuleOp>(op) || op->getParentOfType<gpu::GPUModuleOp>());
        if (((isOfModule && !passesOverModule) || isOfKernels) && cancelled())
          return;
        passesOverModule += isOfModule;
        run();
        passesOverModule -= isOfModule;
      });
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
  for (const std::string &function : functions)
    buildBackwardPipeline(pm, {function, wrt, {}, first});
  if (failed(pm.run(module)))
    return failure();
  PassManager again(module.getContext());
  SmallVector<func::FuncOp> earlier;
  for (const std::string &function : functions) {
    func::FuncOp derivative = findDerivative(module, function);
    if (!derivative) // cancelled
      return failure();
    buildBackwardPipeline(again, {derivative.getName().str(), {}, {}, policy});
    earlier.append({module.lookupSymbol<func::FuncOp>(function), derivative});
  }
  if (failed(again.run(module)))
    return failure();
  for (func::FuncOp function : earlier)
    function.setPrivate();
  PassManager clean(module.getContext());
  clean.addPass(createSymbolDCEPass());
  return clean.run(module);
}

namespace {
/// Passes on each remark once: what one architecture declines another one often does, too.
class RemarksOnce : public ScopedDiagnosticHandler {
public:
  explicit RemarksOnce(MLIRContext *context) : ScopedDiagnosticHandler(context) {
    setHandler([this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Remark)
        return failure();
      std::string text;
      llvm::raw_string_ostream(text) << diagnostic.getLocation() << diagnostic;
      // Handled, where it was seen before.
      return success(!seen.insert(text).second);
    });
  }

private:
  llvm::StringSet<> seen;
};
} // namespace

static std::vector<std::string> gpusOf(Stage stage, const CompileOptions &options) {
  if (!options.forGpus)
    return {};
  if (!options.archs.empty())
    return options.archs;
  ArrayRef<llvm::StringLiteral> all = defaultTargets();
  if (stage != Stage::package)
    all = all.take_back();
  return {all.begin(), all.end()};
}

/// Whether a function takes rows of bf16, which a CPU may multiply.
static bool takesBf16(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return llvm::any_of(function.getArgumentTypes(),
                        [](Type type) { return getElementTypeOrSelf(type).isBF16(); });
  });
}

static std::vector<std::string> cpusOf(ModuleOp module, Stage stage,
                                       const CompileOptions &options) {
  std::vector<std::string> cpus = options.cpus;
  bool mayChunk = options.schedule == Schedule::chunk ||
                  (options.schedule == Schedule::automatic && stage == Stage::package &&
                   takesBf16(module));
  for (const CpuTarget &cpu : knownCpuTargets())
    if (options.forAllCpus && (!cpu.multipliesBf16 || mayChunk))
      cpus.push_back(cpu.name.str());
  return cpus;
}

/// Whether an entry of a manifest has a variant by chunks.
static bool hasChunks(const llvm::json::Object &manifest) {
  for (const llvm::json::Value &entry : *manifest.getArray("entries"))
    if (const llvm::json::Array *variants = entry.getAsObject()->getArray("variants"))
      for (const llvm::json::Value &variant : *variants)
        if (variant.getAsObject()->getString("schedule") == kChunkSchedule)
          return true;
  return false;
}

FailureOr<std::string> ejk::compile(ModuleOp module, Stage stage, const CompileOptions &options) {
  std::vector<std::unique_ptr<BackEnd>> backEnds;
  for (const std::string &arch : gpusOf(stage, options))
    backEnds.push_back(makeCudaBackEnd(arch, options, module.getLoc()));
  size_t numGpus = backEnds.size();
  for (const std::string &cpu : cpusOf(module, stage, options))
    backEnds.push_back(makeCpuBackEnd(cpu, options, module.getLoc()));
  if (llvm::is_contained(backEnds, nullptr))
    return failure();
  bool isPlanned = holdsPlans(module);
  if (isPlanned && (options.derivatives || backEnds.size() > numGpus))
    return module.emitError(
               "holds plans (--emit=plan), which have no derivatives and are for GPUs; "
               "start from the recurrence"),
           failure();
  if (options.derivatives &&
      failed(derive(module, options.derivatives, options.wrt, options.savePolicy)))
    return failure();
  PassManager pm(module.getContext());
  if (!options.derivatives && !isPlanned)
    buildSpecializePipeline(pm);
  if (failed(pm.run(module)) || isCancelled(options))
    return failure();
  if (stage == Stage::scan)
    return printOp(module);
  if (backEnds.empty())
    return module.emitError("is to be compiled for no architecture"), failure();
  if (stage != Stage::package)
    return backEnds.front()->print(module, stage);

  RemarksOnce once(module.getContext());
  std::vector<ArchitectureManifest> manifests;
  std::vector<ImageData> images;
  for (auto [i, backEnd] : llvm::enumerate(backEnds)) {
    // The last one may have the module itself.
    OwningOpRef<ModuleOp> copy = backEnd == backEnds.back() ? OwningOpRef<ModuleOp>()
                                                            : OwningOpRef<ModuleOp>(module.clone());
    FailureOr<BackEnd::Code> code = backEnd->compile(copy ? *copy : module);
    if (failed(code) || isCancelled(options))
      return failure();
    const CpuTarget *cpu = findCpuTarget(backEnd->arch());
    bool isForChunks = cpu && cpu->multipliesBf16 && options.forAllCpus;
    if (isForChunks && options.schedule == Schedule::automatic && !hasChunks(code->manifest))
      continue;
    // Where a CPU's have two, they say so.
    bool isChunk = i < numGpus && options.schedule == Schedule::chunk;
    manifests.push_back(
        {backEnd->arch().str(), isChunk ? "chunk" : "step", std::move(code->manifest)});
    llvm::move(code->images, std::back_inserter(images));
  }
  std::string problem;
  llvm::json::Object manifest = manifests.size() == 1
                                    ? std::move(manifests.front().manifest)
                                    : mergeManifests(std::move(manifests), problem);
  if (!problem.empty())
    return module.emitError() << problem << "; compile for one architecture at a time", failure();
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(manifest));
  std::string package = serializePackage(nlohmann::json::parse(text), images);
  // As whoever loads it will.
  if (Result<Package> loaded = readPackage(package); !loaded)
    return module.emitError() << loaded.error().message, failure();
  return package;
}
