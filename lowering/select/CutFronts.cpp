//===- CutFronts.cpp - what slices of a state have in common, once ----------===//
#include "lowering/Passes.h"
#include "lowering/select/ProgramFit.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk {
#define GEN_PASS_DEF_CUTFRONTS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct CutFrontsPass : ejk::impl::CutFrontsBase<CutFrontsPass> {
  using CutFrontsBase::CutFrontsBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation().getLoc());
    if (!target)
      return signalPassFailure();
    ProgramFit fit(*target, roundExponentials, twoTermStates,
                   [&](OpPassManager &pm, Operation *op) { return runPipeline(pm, op); });
    SmallVector<tile::ProgramOp> programs(getOperation().getOps<tile::ProgramOp>());
    for (tile::ProgramOp program : programs) {
      FailureOr<std::optional<KnownNeeds::Need>> need =
          fit.needOfCut(program, /*stages=*/1, /*mayLoadLate=*/true);
      if (failed(need))
        return signalPassFailure();
      if (!*need)
        continue;
      SmallVector<tile::ProgramOp> parts = cutFronts(program);
      program.replaceAllUsesWith(parts.back().getResults());
      program.erase();
      numFronts += parts.size() - 1;
    }
  }
};
} // namespace
