//===- Pipelines.cpp - named pipelines over the recurrence ----------------===//
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

void ejk::buildSpecializePipeline(mlir::OpPassManager &pm) {
  pm.addPass(createDescribeInterface());
  pm.addPass(createNormalizeGates());
  pm.addPass(createToScan());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createMergeDecays());
  pm.addPass(mlir::createCanonicalizerPass());
}

void ejk::registerPipelines() {
  mlir::PassPipelineRegistration<>(
      "ejk-specialize", "recurrences to scans with the gates they have, and no others",
      [](mlir::OpPassManager &pm) { buildSpecializePipeline(pm); });
}
