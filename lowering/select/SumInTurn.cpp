//===- SumInTurn.cpp - sums over heads by the blocks that make their terms ----===//
#include "lowering/Passes.h"
#include "lowering/kernels/GroupSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

namespace ejk {
#define GEN_PASS_DEF_SUMINTURN
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// A zero for each row and head of `program`.
static Value makeTurns(tile::ProgramOp program) {
  OpBuilder b(program);
  Location loc = program.getLoc();
  Value rows = program.getSequences().front();
  auto shape = cast<RankedTensorType>(rows.getType()).getShape().take_front(3);
  SmallVector<Value> sizes;
  for (auto [d, size] : llvm::enumerate(shape))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(b, loc, rows, d));
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  Value empty = tensor::EmptyOp::create(b, loc, shape, b.getI32Type(), sizes);
  return linalg::FillOp::create(b, loc, zero, empty).getResult(0);
}

/// Sums in f32, and rounds the sum.
static void roundApart(SumHeadsOp sum) {
  auto type = cast<RankedTensorType>(sum.getType());
  if (type.getElementType().isF32())
    return;
  OpBuilder b(sum);
  Value whole = SumHeadsOp::create(b, sum.getLoc(), type.clone(b.getF32Type()), sum.getTensor(),
                                   sum.getDimAttr(), sum.getLike());
  Value rounded = arith::TruncFOp::create(b, sum.getLoc(), type, whole);
  sum.replaceAllUsesWith(rounded);
  sum.erase();
}

namespace {
struct SumInTurnPass : ejk::impl::SumInTurnBase<SumInTurnPass> {
  void runOnOperation() override {
    for (SumHeadsOp sum :
         llvm::make_early_inc_range(getOperation().getBody().getOps<SumHeadsOp>())) {
      if (!canSumInTurn(sum))
        continue;
      ++numSums;
      auto program = sum.getTensor().getDefiningOp<tile::ProgramOp>();
      if (!program.getTurns())
        program.getTurnsMutable().assign(makeTurns(program));
      roundApart(sum);
    }
  }
};
} // namespace
