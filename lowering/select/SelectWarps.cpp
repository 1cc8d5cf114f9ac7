//===- SelectWarps.cpp - as many warps as live tiles need -----------------===//
#include "lowering/Passes.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace ejk {
#define GEN_PASS_DEF_SELECTWARPS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
struct SelectWarpsPass : ejk::impl::SelectWarpsBase<SelectWarpsPass> {
  using SelectWarpsBase::SelectWarpsBase;

  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (!program->hasAttr(kWarpsAttr))
        programs.push_back(program);
    });
    for (ProgramOp program : programs)
      if (failed(layOut(program)))
        return signalPassFailure();
  }

private:
  LogicalResult layOut(ProgramOp program) {
    OwningOpRef<ProgramOp> before = cast<ProgramOp>(program->clone());
    if (failed(layOut(program, /*warps=*/0)))
      return failure();
    if (!program->hasAttr(kWarpgroupsAttr) || warpsOf(program) != cost::kFewWarps)
      return success();
    if (cost::fitFewWarps(registersOfLiveTiles(program)))
      return success();
    program->setAttrs(before.get()->getAttrs());
    program.getBody().takeBody(before.get().getBody());
    ++numWidened;
    return layOut(program, cost::kManyWarps);
  }

  LogicalResult layOut(ProgramOp program, unsigned warps) {
    OpPassManager passes(ProgramOp::getOperationName());
    AssignTileLayoutsOptions layouts;
    layouts.arch = arch;
    layouts.warps = warps;
    passes.addPass(createAssignTileLayouts(layouts));
    passes.addPass(createScheduleMatmuls());
    return runPipeline(passes, program);
  }

  static unsigned warpsOf(ProgramOp program) {
    return program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt();
  }
};
} // namespace
