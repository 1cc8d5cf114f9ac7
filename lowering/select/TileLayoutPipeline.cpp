//===- TileLayoutPipeline.cpp - layouts for block programs ----------------===//
#include "lowering/select/TileLayoutPipeline.h"
#include "lowering/Passes.h"
#include "lowering/target/Target.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

using namespace mlir;

void ejk::buildTileLayoutPipeline(OpPassManager &pm, StringRef arch, bool roundExponentials,
                                  int64_t twoTermStates, bool partitionWarps) {
  // An unknown name is an error of the passes that take it.
  const ejk::Target *target = ejk::findTarget(arch);
  bool hasWgmma = target && target->hasWgmma;
  pm.addPass(createExpandSolves());
  pm.addPass(createCanonicalizerPass());
  if (hasWgmma)
    pm.addPass(createLoadStatesByRows());
  pm.addPass(createSliceRowsEarly());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createReuseExponentials());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createSinkIntoBranches());
  pm.addPass(createDeferStateScaling());
  pm.addPass(createHoistFromBranches());
  pm.addPass(createReuseScaledRows());
  if (roundExponentials)
    pm.addPass(createTruncateLiveExponentials());
  SplitOperandsOptions split;
  split.twoTermStates = twoTermStates;
  pm.addPass(createSplitOperands(split));
  if (hasWgmma)
    pm.addPass(createMultiplyInTf32());
  if (partitionWarps) {
    PartitionWarpsOptions partition;
    partition.arch = arch.str();
    pm.addPass(createPartitionWarps(partition));
  }
  SelectWarpsOptions warps;
  warps.arch = arch.str();
  pm.addPass(createSelectWarps(warps));
}
