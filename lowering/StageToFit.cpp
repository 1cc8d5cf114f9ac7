//===- StageToFit.cpp - as many stages as a thread block holds -------------===//
#include "lowering/Passes.h"
#include "lowering/RotateProducts.h"
#include "lowering/StageTileLoads.h"
#include "lowering/TileKernel.h"
#include "lowering/TileLayout.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk {
#define GEN_PASS_DEF_STAGETOFIT
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
struct StageToFitPass : ejk::impl::StageToFitBase<StageToFitPass> {
  using StageToFitBase::StageToFitBase;

  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr) && program.getBlock().getOps<MakeRingOp>().empty())
        programs.push_back(program);
    });
    for (ProgramOp program : programs) {
      auto [stages, rotates] = fit(program);
      if (stages)
        stageTileLoads(program, stages);
      if (rotates)
        rotateProducts(program);
      ++(stages > 1 ? numAhead : stages == 1 ? numSingle : numDeclined);
    }
  }

  struct Plan {
    unsigned stages;
    bool rotates;
  };

  /// What fits; no stages where there is nothing to copy ahead, or no room.
  Plan fit(ProgramOp program) {
    for (Plan plan : {Plan{4, true}, Plan{3, false}, Plan{2, false}, Plan{1, false}})
      if (fits(program, plan))
        return plan;
    return {0, false};
  }

  bool fits(ProgramOp program, Plan plan) {
    if (plan.rotates && !program->hasAttr(kWarpgroupsAttr))
      return false;
    OpBuilder b(program);
    auto copy = cast<ProgramOp>(b.clone(*program));
    StagedLoads staged = stageTileLoads(copy, plan.stages);
    bool fits = staged.rings && (!plan.rotates || rotateProducts(copy)) &&
                sharedMemoryNeed(copy) + staged.mbarrierBytes() <= sharedMemoryLimit(arch);
    copy.erase();
    return fits;
  }
};
} // namespace
