//===- FuseElementwise.cpp - fuse elementwise ops up to a size -------------===//
#include "dialect/shapes/Shapes.h"
#include "lowering/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace ejk {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

static int64_t bodySize(Operation *op) {
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  return generic ? int64_t(generic.getBody()->getOperations().size()) : 1;
}

/// Whether it makes tensors of conditions, which no kernel stores.
static bool makesConditions(Operation *op) {
  return isa<linalg::GenericOp>(op) && op->getNumResults() == 1 &&
         getElementTypeOrSelf(op->getResult(0).getType()).isInteger(1);
}

/// Gives each use of a condition an op of its own, so that the op fuses with the user.
static void copyConditions(func::FuncOp function) {
  SmallVector<Operation *> found;
  function.walk([&](Operation *op) {
    if (makesConditions(op))
      found.push_back(op);
  });
  // Users first: a copy uses other conditions once more.
  for (Operation *op : llvm::reverse(found))
    for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op->getUses())))
      if (isa<linalg::GenericOp>(use.getOwner()))
        use.set(OpBuilder(use.getOwner()).clone(*op)->getResult(0));
}

namespace {
struct FuseElementwisePass : ejk::impl::FuseElementwiseBase<FuseElementwisePass> {
  using FuseElementwiseBase::FuseElementwiseBase;

  void runOnOperation() override {
    // Upstream folds casts into the ops that use them, and then two sizes would stand in one op.
    if (failed(ShapeAnalysis(getOperation()).verify()))
      return signalPassFailure();
    copyConditions(getOperation());
    auto countOps = [&] {
      int64_t count = 0;
      getOperation()->walk([&](linalg::GenericOp) { ++count; });
      return count;
    };
    int64_t before = countOps();
    linalg::ControlFusionFn isSmall = [this](OpOperand *operand) {
      Operation *producer = operand->get().getDefiningOp();
      return producer && producer->hasOneUse() &&
             (makesConditions(producer) ||
              bodySize(producer) + bodySize(operand->getOwner()) <= mostOps);
    };
    RewritePatternSet patterns(&getContext());
    linalg::populateElementwiseOpsFusionPatterns(patterns, isSmall);
    affine::AffineApplyOp::getCanonicalizationPatterns(patterns, &getContext());
    linalg::GenericOp::getCanonicalizationPatterns(patterns, &getContext());
    getContext().getLoadedDialect<linalg::LinalgDialect>()->getCanonicalizationPatterns(patterns);
    linalg::populateConstantFoldLinalgOperations(patterns, isSmall);
    // Producers first, so that no body is cloned twice for one fusion.
    (void)applyPatternsGreedily(getOperation(), std::move(patterns),
                                GreedyRewriteConfig().setUseTopDownTraversal());
    numFused += before - countOps();
  }
};
} // namespace
