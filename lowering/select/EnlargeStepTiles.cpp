//===- EnlargeStepTiles.cpp - step by step, for launches of many heads -----===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "lowering/Passes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "lowering/step/StepPlan.h"
#include "lowering/step/StepSizes.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"

namespace ejk {
#define GEN_PASS_DEF_ENLARGESTEPTILES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct EnlargeStepTilesPass : ejk::impl::EnlargeStepTilesBase<EnlargeStepTilesPass> {
  using EnlargeStepTilesBase::EnlargeStepTilesBase;

  void runOnOperation() override {
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (!goesByStepsAlone(function))
        continue;
      ArrayAttr when;
      SmallVector<ScanOp> enlarged;
      for (ScanOp scan : function.getBody().getOps<ScanOp>()) {
        FailureOr<int64_t> warps = warpsOfHead(scan);
        if (failed(warps))
          return signalPassFailure();
        ArrayAttr areMany = *warps ? manyHeads(function, scan, *warps) : ArrayAttr();
        if (!areMany)
          continue;
        enlarged.push_back(scan);
        Builder b(&getContext());
        if (when != areMany)
          when = both(b, when, areMany);
      }
      if (when)
        makeAlternative(function, enlarged, when);
    }
  }

private:
  /// Whether a caller has `function` computed step by step, and no derivative is part of it: of
  /// these scans most have saved states, or few rows where chunks take many.
  static bool goesByStepsAlone(func::FuncOp function) {
    StringRef schedule = scheduleOf(function);
    return !function.isPrivate() && !function.isDeclaration() && function.getBody().hasOneBlock() &&
           !function->hasAttr(kDerivativeOfAttr) && !function->hasAttr(kForwardOfAttr) &&
           (schedule == kStepSchedule ||
            (schedule.empty() && function.getBody().getOps<tile::ProgramOp>().empty()));
  }

  /// The warps with large tiles that a head has; 0 where there is no such kernel.
  static FailureOr<int64_t> warpsOfHead(ScanOp scan) {
    Value first = scan.getSequences().front();
    if (scan.getSegments() || cast<RankedTensorType>(first.getType()).getDimSize(1) == 1 ||
        RowPlan::of(scan))
      return 0;
    FailureOr<StepPlan> plan = StepPlan::analyze(scan, {}, /*mayBeWhole=*/true);
    if (failed(plan))
      return failure();
    return warpsOfLargeTiles(*plan);
  }

  /// The condition that a launch has more than one row a sequence and the warps of all heads are
  /// many; null where sizes do not tell.
  ArrayAttr manyHeads(func::FuncOp function, ScanOp scan, int64_t warpsOfHead) {
    using O = DimExpr::Operator;
    Builder b(&getContext());
    ShapeAnalysis shapes(function);
    Value first = scan.getSequences().front(), cu = scan.getCuSeqlens();
    DimExpr sequences = cu ? sequencesOf(shapes.dim(cu, 0)) : shapes.dim(first, 0);
    DimExpr warps = DimExpr::make(
        O::multiply, sequences,
        DimExpr::make(O::multiply, shapes.dim(first, 2), DimExpr::number(4 * warpsOfHead)));
    Attribute all = sizeAttribute(b, warps);
    if (!all)
      return {};
    // Of four multiprocessors, as the cost model counts them.
    ArrayAttr fill = condition(b, ">=", all,
                               condition(b, "*", b.getStringAttr("device.multiprocessors"),
                                         b.getI64IntegerAttr(cost::kWarpsOfLargeStepTiles)));
    DimExpr rows = shapes.dim(first, 1);
    if (cu || rows.kind != DimExpr::Kind::symbol)
      return fill;
    return condition(
        b, "and", condition(b, ">=", b.getStringAttr(rows.symbol), b.getI64IntegerAttr(2)), fill);
  }

  /// Puts a copy with large tiles before `function`, which takes all other launches.
  void makeAlternative(func::FuncOp function, ArrayRef<ScanOp> enlarged, ArrayAttr when) {
    Builder b(&getContext());
    for (ScanOp scan : enlarged)
      scan->setAttr(kLargeTilesAttr, b.getUnitAttr());
    func::FuncOp large = cloneAlternative(function, "large_tiles", kStepSchedule, /*before=*/true);
    for (ScanOp scan : enlarged)
      scan->removeAttr(kLargeTilesAttr);
    auto already = large->getAttrOfType<ArrayAttr>(kWhenAttr);
    large->setAttr(kWhenAttr, both(b, already, when));
    function->setAttr(kScheduleAttr, b.getStringAttr(kStepSchedule));
    ++numEnlarged;
  }
};
} // namespace
