//===- CutSmallStates.cpp - scans for states that are numbers or vectors ---===//
#include "dialect/ejk/Names.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SharedRows.h"
#include "passes/scan/SmallStates.h"

namespace ejk {
#define GEN_PASS_DEF_CUTSMALLSTATES
#define GEN_PASS_DEF_SEPARATESTATES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

bool ejk::mayCutStates(ScanOp scan) {
  return llvm::any_of(scan.getStateArgs(), isMatrix) && !hasBranches(scan) &&
         scan.getQueries().empty() && !scan.getSegments() && scan.getSaves().empty() &&
         scan.getSavedStates().empty();
}

bool ejk::doesMoreThanAdd(ScanOp scan, unsigned number) {
  Value arg = scan.getStateArgs()[number];
  for (Value value = scan.getYield().getStates()[number]; value != arg;) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op))
      return true;
    value = op->getOperand(!computedFrom(op->getOperand(0)).contains(arg));
  }
  return false;
}

/// Whether some state is a number or a vector that keeps the scan from its chunks.
static bool hasObstacle(ScanOp scan) {
  if (!mayCutStates(scan))
    return false;
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (!isMatrix(arg) && doesMoreThanAdd(scan, i))
      return true;
  return false;
}

/// Whether the rows of vectors are in 16 bits, as chunks want them.
static bool hasNarrowRows(ScanOp scan) {
  return llvm::all_of(scan.getSequences(), [](Value rows) {
    auto type = cast<RankedTensorType>(rows.getType());
    return type.getRank() == 3 || type.getElementTypeBitWidth() == 16;
  });
}

namespace {
struct CutSmallStatesPass : ejk::impl::CutSmallStatesBase<CutSmallStatesPass> {
  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) -> SmallVector<ScanOp> {
      if (!hasObstacle(scan))
        return {};
      SmallVector<Value> matrices = llvm::filter_to_vector(
          llvm::map_to_vector(scan.getStateArgs(), [](Value state) { return state; }), isMatrix);
      ScanCut cut(scan, matrices, [](Value value) { return isReduction(value.getDefiningOp()); });
      bool isAlone = llvm::any_of(llvm::enumerate(scan.getStateArgs()), [&](auto state) {
        return !cut.isLate(state.value()) && doesMoreThanAdd(scan, state.index());
      });
      if (!isAlone) {
        scan.emitRemark("not cut: its states that are numbers or vectors depend on what is read of "
                        "K×V states");
        return {};
      }
      ++numCut;
      return cut.apply();
    });
  }
};

struct SeparateStatesPass : ejk::impl::SeparateStatesBase<SeparateStatesPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    bool mayShare = hasSharedRows(function);
    if (function->hasAttr(kDerivativeOfAttr) || (!hasSeparableStates(function) && !mayShare))
      return;
    ++numSeparated;
    OpPassManager pm(func::FuncOp::getOperationName());
    CutRowsOptions rows;
    rows.shared = mayShare;
    pm.addPass(createCutRows(rows));
    pm.addPass(createColumnStates());
    pm.addPass(createCutSmallStates());
    pm.addPass(createSplitStates());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(createMergeDecays());
    if (failed(runPipeline(pm, function)))
      signalPassFailure();
  }
};
} // namespace

bool ejk::hasSeparableStates(func::FuncOp function) {
  return function
      .walk([](ScanOp scan) {
        return (hasObstacle(scan) && hasNarrowRows(scan)) || hasCuttableRows(scan)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}
