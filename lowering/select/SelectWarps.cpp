//===- SelectWarps.cpp - as many warps as live tiles need -----------------===//
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/program/RegisterPressure.h"
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
    bool isWide = largestMatrix(program) > cost::kElementsOfFourWarps;
    if (cost::fitFewWarps(registersOfLiveTiles(program), isWide, hasOthers(program)))
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

  /// Whether registers hold more than tiles: across a branch, for ragged tiles, for many matmuls.
  static bool hasOthers(ProgramOp program) {
    auto takesMore = [](Block *block) {
      bool isBranch = isa<GuardedOp>(block->getParentOp());
      return isBranch || hasManyMatmuls(*block) ? WalkResult::interrupt() : WalkResult::advance();
    };
    return program.getCuSeqlens() || program->walk(takesMore).wasInterrupted();
  }

  static unsigned warpsOf(ProgramOp program) {
    return program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt();
  }
};
} // namespace
