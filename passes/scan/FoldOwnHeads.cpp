//===- FoldOwnHeads.cpp - no sums over heads of which each is alone --------===//
#include "dialect/shapes/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/OwnHeads.h"

namespace ejk {
#define GEN_PASS_DEF_FOLDOWNHEADS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

void ejk::replaceByTerm(SumHeadsOp sum) {
  auto scan = sum.getTensor().getDefiningOp<ScanOp>();
  unsigned output = cast<OpResult>(sum.getTensor()).getResultNumber();
  auto type = cast<RankedTensorType>(sum.getType());
  OpOperand &yielded = scan.getYield().getOutputsMutable()[output];
  if (!type.getElementType().isF32()) {
    OpBuilder b(scan.getYield());
    Type rounded = type.getElementType();
    if (auto vector = dyn_cast<VectorType>(yielded.get().getType()))
      rounded = vector.clone(rounded);
    yielded.set(arith::TruncFOp::create(b, sum.getLoc(), rounded, yielded.get()));
  }
  Value rows = sum.getTensor();
  rows.setType(cast<RankedTensorType>(rows.getType()).clone(type.getElementType()));
  if (rows.getType() != type) {
    OpBuilder b(sum);
    rows = tensor::CastOp::create(b, sum.getLoc(), type, rows);
  }
  sum.replaceAllUsesWith(rows);
  sum.erase();
}

static bool isSame(const DimExpr &a, const DimExpr &b) {
  if (a.kind != b.kind)
    return false;
  return a.kind == DimExpr::Kind::symbol     ? a.symbol == b.symbol
         : a.kind == DimExpr::Kind::constant ? a.value == b.value
                                             : false;
}

namespace {
struct FoldOwnHeadsPass : ejk::impl::FoldOwnHeadsBase<FoldOwnHeadsPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isDeclaration())
      return;
    SmallVector<SumHeadsOp> sums;
    ShapeAnalysis shapes(function);
    for (SumHeadsOp sum : function.getBody().getOps<SumHeadsOp>())
      if (isSame(shapes.dim(sum.getTensor(), sum.getDim()),
                 shapes.dim(sum.getLike(), sum.getDim())))
        sums.push_back(sum);
    for (SumHeadsOp sum : sums) {
      ++numFolded;
      auto scan = sum.getTensor().getDefiningOp<ScanOp>();
      if (scan && llvm::is_contained(scan.getOutputs(), sum.getTensor()) &&
          sum.getTensor().hasOneUse())
        replaceByTerm(sum);
      else
        replaceByRounding(sum);
    }
  }

  static void replaceByRounding(SumHeadsOp sum) {
    OpBuilder b(sum);
    auto type = cast<RankedTensorType>(sum.getType());
    Value rows = sum.getTensor();
    auto own = cast<RankedTensorType>(rows.getType());
    if (own.getElementType() != type.getElementType())
      rows = arith::TruncFOp::create(b, sum.getLoc(), own.clone(type.getElementType()), rows);
    if (rows.getType() != type)
      rows = tensor::CastOp::create(b, sum.getLoc(), type, rows);
    sum.replaceAllUsesWith(rows);
    sum.erase();
  }
};
} // namespace
