//===- SelectStages.cpp - as many stages as a thread block holds -------------===//
#include "lowering/Passes.h"
#include "lowering/pipeline/PipelineBranchOperands.h"
#include "lowering/pipeline/PipelineMatmuls.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/DeferStores.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk {
#define GEN_PASS_DEF_SELECTSTAGES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr uint64_t kAll = ~uint64_t(0);
/// How many tiles are chosen among, one after the other: kernels are made for the square of that.
static constexpr unsigned kMostTried = 8;

namespace {
struct SelectStagesPass : ejk::impl::SelectStagesBase<SelectStagesPass> {
  using SelectStagesBase::SelectStagesBase;

  void runOnOperation() override {
    target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr) && program.getBlock().getOps<MakeRingOp>().empty())
        programs.push_back(program);
    });
    for (ProgramOp program : programs) {
      if (failed(checkLaidOut(program)))
        return signalPassFailure();
      Plan plan = fit(program);
      stage(program, plan);
      ++(plan.stages > 1 ? numAhead : plan.stages == 1 ? numSingle : numDeclined);
    }
  }

  struct Plan {
    unsigned stages;
    /// The next item's products, or all that a branch takes of it, an iteration early.
    bool rotates = false, prepares = false;
    /// Stores in the next iteration, from two places by turns.
    bool storesLate = false;
    /// Which tiles are in registers that could be in shared memory.
    uint64_t held = 0;
    /// Whether f32 matrices have stages, too.
    bool wide = true;
  };

  /// What fits; no stages where there is nothing to copy ahead, or no room.
  Plan fit(ProgramOp program) {
    for (Plan plan : {Plan{2, false, true}, Plan{3, true, false, true}, Plan{4, true}, Plan{3},
                      Plan{2}, Plan{1}, Plan{1, false, false, false, 0, /*wide=*/false}}) {
      plan.held = kAll;
      if (!fits(program, plan))
        continue;
      plan.held = fewestHeld(program, plan);
      return plan;
    }
    return {0, false, false, false, fewestHeld(program, {0})};
  }

  /// Of the tiles that lie in shared memory by choice those that cannot, with `plan`. One after
  /// the other, the one without which least is needed.
  uint64_t fewestHeld(ProgramOp program, Plan plan) {
    unsigned tiles = countSpilledTiles(program);
    for (plan.held = 0; need(program, plan) > target->sharedBytesPerBlock;) {
      if (tiles > kMostTried)
        return kAll;
      uint64_t best = kAll;
      unsigned least = std::numeric_limits<unsigned>::max();
      for (unsigned i = 0; i < tiles; ++i) {
        Plan more = plan;
        more.held |= uint64_t(1) << i;
        unsigned needed = more.held == plan.held ? least : need(program, more);
        if (needed < least) {
          least = needed;
          best = more.held;
        }
      }
      if (best == kAll)
        return kAll;
      plan.held = best;
    }
    return plan.held;
  }

  /// Whether what `plan` asks for was done.
  bool stage(ProgramOp program, Plan plan) {
    keepInRegisters(program, plan.held);
    staged = {};
    if (!plan.stages)
      return true;
    staged = multistageLoads(program, plan.stages, /*apart=*/plan.prepares, plan.wide);
    return staged.rings && (!plan.rotates || pipelineMatmuls(program)) &&
           (!plan.prepares || (pipelineBranchOperands(program) && usesTmaLoads(program))) &&
           (!plan.storesLate || (usesTmaLoads(program) && deferStores(program)));
  }

  bool fits(ProgramOp program, Plan plan) {
    return need(program, plan) <= target->sharedBytesPerBlock;
  }

  /// The bytes of shared memory that a thread block needs; more than there are where `plan` cannot
  /// be followed.
  unsigned need(ProgramOp program, Plan plan) {
    constexpr unsigned kImpossible = std::numeric_limits<unsigned>::max() - 1;
    // Both are for threads that do not wait for products; what is prepared, of items that come
    // without them.
    if ((plan.rotates || plan.prepares) && !program->hasAttr(kWarpgroupsAttr))
      return kImpossible;
    OpBuilder b(program);
    auto copy = cast<ProgramOp>(b.clone(*program));
    // What was prepared may be more than a kernel can have.
    ScopedDiagnosticHandler quiet(program.getContext(), [](Diagnostic &) { return success(); });
    bool isPossible = stage(copy, plan) && (!plan.prepares || succeeded(checkLaidOut(copy)));
    unsigned bytes =
        isPossible ? sharedMemoryNeed(copy, plan.storesLate) + staged.mbarrierBytes() : kImpossible;
    copy.erase();
    return bytes;
  }

  const Target *target = nullptr;
  StagedLoads staged;
};
} // namespace
