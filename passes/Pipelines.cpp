//===- Pipelines.cpp - named pipelines over the recurrence ----------------===//
#include "passes/Pipelines.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

void ejk::buildSpecializePipeline(mlir::OpPassManager &pm) {
  pm.addPass(createDescribeInterface());
  pm.addPass(createNormalizeGates());
  pm.addPass(createToScan());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createSplitStates());
  pm.addPass(createMergeDecays());
  pm.addPass(mlir::createCanonicalizerPass());
}

void ejk::buildBackwardPipeline(mlir::OpPassManager &pm, const BackwardOptions &options) {
  buildSpecializePipeline(pm);
  DeriveBackwardOptions derive;
  derive.function = options.function;
  for (const std::string &name : options.wrt)
    derive.wrt.push_back(name);
  for (const std::string &name : options.cotangents)
    derive.cotangents.push_back(name);
  derive.gateGradients = options.policy.gateGradients;
  derive.checkpointEvery = options.policy.checkpointEvery;
  pm.addPass(createDeriveBackward(derive));
  // What the gradients do not need goes here.
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createMergeDecays());
  pm.addPass(mlir::createCanonicalizerPass());
}

void ejk::buildTilePipeline(mlir::OpPassManager &pm) {
  pm.addPass(createHoistReductions());
  pm.addPass(createIncludeDiagonal());
  pm.addPass(createNarrowSaves());
  pm.addPass(createChunk());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
}

namespace {
struct BackwardFlags : mlir::PassPipelineOptions<BackwardFlags> {
  Option<std::string> function{*this, "function", llvm::cl::desc("the function to differentiate")};
  ListOption<std::string> wrt{*this, "wrt", llvm::cl::desc("arguments to differentiate by")};
  ListOption<std::string> cotangents{*this, "cotangents",
                                     llvm::cl::desc("results that have a cotangent")};
  Option<ejk::GateGradients> gateGradients{
      *this, "gate-gradients", llvm::cl::desc("where the sums of gates' gradients start"),
      llvm::cl::init(ejk::GateGradients::checkpoint),
      llvm::cl::values(
          clEnumValN(ejk::GateGradients::suffix, "suffix", "at the sequence's end"),
          clEnumValN(ejk::GateGradients::checkpoint, "checkpoint", "at the end of every chunk"),
          clEnumValN(ejk::GateGradients::terms, "terms", "make the sizes of their terms instead"))};
  Option<int64_t> checkpointEvery{
      *this, "checkpoint-every",
      llvm::cl::desc("rows of a chunk; 0 for 64, with f32 inputs 32 or 16"), llvm::cl::init(0)};
};
} // namespace

void ejk::registerPipelines() {
  mlir::PassPipelineRegistration<BackwardFlags>(
      "ejk-backward", "a user's functions and their derivatives, as specialised scans",
      [](mlir::OpPassManager &pm, const BackwardFlags &flags) {
        buildBackwardPipeline(pm, {flags.function,
                                   {flags.wrt.begin(), flags.wrt.end()},
                                   {flags.cotangents.begin(), flags.cotangents.end()},
                                   {flags.gateGradients, flags.checkpointEvery}});
      });
  mlir::PassPipelineRegistration<ejk::NoFlags>(
      "ejk-specialize", "recurrences to scans with the gates they have, and no others",
      [](mlir::OpPassManager &pm, const ejk::NoFlags &) { buildSpecializePipeline(pm); });
  mlir::PassPipelineRegistration<ejk::NoFlags>(
      "ejk-to-tile", "specialised scans to block programs, where they have a chunkwise form",
      [](mlir::OpPassManager &pm, const ejk::NoFlags &) { buildTilePipeline(pm); });
}
