//===- Registration.cpp - what every compiler tool knows ------------------===//
#include "tools/common/Registration.h"
#include "tools/interpret/Interpret.h"
#include "lowering/Passes.h"
#include "lowering/driver/Pipelines.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

using namespace mlir;

/// MLIR's own passes: the general ones, and those that a pipeline of ejk's runs, so that what a
/// pipeline prints can be given to ejk-opt again.
static void registerUpstreamPasses() {
  registerTransformsPasses();
  registerConvertElementwiseToLinalgPass();
  registerConvertGpuOpsToNVVMOps();
  registerConvertVectorToLLVMPass();
  registerLinalgElementwiseOpFusionPass();
  registerReconcileUnrealizedCastsPass();
  registerSCFToControlFlowPass();
}

void ejk::registerAll(DialectRegistry &registry) {
  registerDialects(registry);
  registerUpstreamPasses();
  registerEjkPasses();
  registerPipelines();
  check::registerEjkCheckPasses();
  registerEjkLoweringPasses();
  registerLoweringPipelines();
}
