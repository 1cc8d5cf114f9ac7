//===- Pipelines.cpp - named pipelines from scans to nvvm -----------------===//
#include "lowering/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

using namespace mlir;

void ejk::buildToGPUPipeline(OpPassManager &pm) {
  pm.addPass(createSplitReads());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createSplitSums());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  // What stands between recurrences becomes as few elementwise ops as it can.
  OpPassManager &functions = pm.nest("func.func");
  // Fusion is of results with one use. The first round gives each op an empty
  // tensor to write, where the conversion gave it an input; with the sizes' uses
  // of the inputs gone too, the second fuses.
  functions.addPass(createConvertElementwiseToLinalgPass());
  functions.addPass(createLinalgElementwiseOpFusionPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createLinalgElementwiseOpFusionPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLowerToGPU());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void ejk::buildToNVVMPipeline(OpPassManager &pm) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createLegalizeKernelMath());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
}

void ejk::registerLoweringPipelines() {
  PassPipelineRegistration<>("ejk-to-gpu", "specialised scans to gpu kernels and launches",
                             [](OpPassManager &pm) { buildToGPUPipeline(pm); });
  PassPipelineRegistration<>("ejk-to-nvvm", "gpu kernels to the nvvm and llvm dialects",
                             [](OpPassManager &pm) { buildToNVVMPipeline(pm); });
}
