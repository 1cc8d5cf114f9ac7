//===- StageToFit.cpp - as many stages as a thread block holds -------------===//
#include "lowering/Passes.h"
#include "lowering/PrepareAhead.h"
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
      Plan plan = fit(program);
      stage(program, plan);
      ++(plan.stages > 1 ? numAhead : plan.stages == 1 ? numSingle : numDeclined);
    }
  }

  struct Plan {
    unsigned stages;
    /// The next item's products, or all that a branch takes of it, an iteration early.
    bool rotates = false, prepares = false;
  };

  /// What fits; no stages where there is nothing to copy ahead, or no room.
  Plan fit(ProgramOp program) {
    for (Plan plan : {Plan{2, false, true}, Plan{4, true}, Plan{3}, Plan{2}, Plan{1}})
      if (fits(program, plan))
        return plan;
    return {0};
  }

  /// Whether what `plan` asks for was done.
  bool stage(ProgramOp program, Plan plan) {
    if (!plan.stages)
      return false;
    staged = stageTileLoads(program, plan.stages, /*apart=*/plan.prepares);
    return staged.rings && (!plan.rotates || rotateProducts(program)) &&
           (!plan.prepares || (prepareAhead(program) && takesBoxes(program)));
  }

  bool fits(ProgramOp program, Plan plan) {
    // Both are for threads that do not wait for products; what is prepared, of items that come
    // without them.
    if ((plan.rotates || plan.prepares) && !program->hasAttr(kWarpgroupsAttr))
      return false;
    OpBuilder b(program);
    auto copy = cast<ProgramOp>(b.clone(*program));
    // What was prepared may be more than a kernel can have.
    ScopedDiagnosticHandler quiet(program.getContext(), [](Diagnostic &) { return success(); });
    bool fits = stage(copy, plan) && (!plan.prepares || succeeded(checkLaidOut(copy))) &&
                sharedMemoryNeed(copy) + staged.mbarrierBytes() <= sharedMemoryLimit(arch);
    copy.erase();
    return fits;
  }

  StagedLoads staged;
};
} // namespace
