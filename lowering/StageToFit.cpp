//===- StageToFit.cpp - as many stages as a thread block holds -------------===//
#include "lowering/Passes.h"
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

/// What a ring's mbarriers take, if roles are to use it.
static constexpr unsigned kMbarriers = 128;

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
      unsigned stages = fit(program);
      if (stages)
        stageTileLoads(program, stages);
      ++(stages > 1 ? numAhead : stages == 1 ? numSingle : numDeclined);
    }
  }

  /// The stages that fit; 0 where there is nothing to copy ahead, or no room.
  unsigned fit(ProgramOp program) {
    for (unsigned stages : {3, 2, 1}) {
      OpBuilder b(program);
      auto copy = cast<ProgramOp>(b.clone(*program));
      StagedLoads staged = stageTileLoads(copy, stages);
      bool fits = staged.rings &&
                  sharedMemoryNeed(copy) + kMbarriers * staged.rings <= sharedMemoryLimit(arch);
      copy.erase();
      if (fits)
        return stages;
    }
    return 0;
  }
};
} // namespace
