//===- CutRows.cpp - operands that no chunk computes, in a scan before ----===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SmallStates.h"

namespace ejk {
#define GEN_PASS_DEF_CUTROWS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// The 16-bit type that `vector`, an operand of a K×V op, is to be rounded to in a scan before: it is made of
/// rows of that type, and of a rotation, or of rows in f32, for which a chunk has no matmul. Null for others.
static Type typeOfRows(ScanOp scan, Value vector) {
  if (!getElementTypeOrSelf(vector.getType()).isF32() || isa<BlockArgument>(vector))
    return {};
  Type narrow;
  bool hasNoTiles = false;
  for (Value value : computedFrom(vector)) {
    if (value.getDefiningOp<RotateHalfOp>())
      hasNoTiles = true;
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg)
      continue;
    if (arg.getArgNumber() >= scan.getFirstStateArg())
      return {};
    Type element = getElementTypeOrSelf(arg.getType());
    if (arg.getArgNumber() >= scan.getSequences().size() || !isa<VectorType>(arg.getType()))
      continue;
    if (element.isF32())
      hasNoTiles = true;
    else if (element.isBF16() || element.isF16())
      narrow = element;
  }
  return hasNoTiles ? narrow : Type();
}

/// What `scan` multiplies K×V values by, or adds to them.
static SmallVector<OpOperand *> operandsOf(ScanOp scan) {
  SmallVector<OpOperand *> operands;
  for (Operation &op : scan.getStep())
    if (isa<ReadOp, OuterAddOp>(op))
      for (OpOperand &operand : op.getOpOperands())
        if (!isMatrix(operand.get()))
          operands.push_back(&operand);
  return operands;
}

bool ejk::hasCuttableRows(ScanOp scan) {
  return mayCutStates(scan) && llvm::any_of(operandsOf(scan), [&](OpOperand *operand) {
           return bool(typeOfRows(scan, operand->get()));
         });
}

namespace {
struct CutRowsPass : ejk::impl::CutRowsBase<CutRowsPass> {
  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) -> SmallVector<ScanOp> {
      if (!hasCuttableRows(scan))
        return {};
      llvm::DenseMap<Value, Value> rounded; // and widened again
      llvm::DenseSet<Value> rows;
      for (OpOperand *operand : operandsOf(scan)) {
        Value vector = operand->get();
        Type narrow = typeOfRows(scan, vector);
        if (!narrow)
          continue;
        Value &known = rounded[vector];
        if (!known) {
          OpBuilder b(scan->getContext());
          b.setInsertionPointAfterValue(vector);
          auto type = cast<VectorType>(vector.getType());
          Value row =
              arith::TruncFOp::create(b, vector.getLoc(), type.clone(narrow), vector);
          rows.insert(row);
          known = arith::ExtFOp::create(b, vector.getLoc(), type, row);
        }
        operand->set(known);
      }
      numCut += rows.size();
      SmallVector<Value> states(scan.getStateArgs().begin(), scan.getStateArgs().end());
      return ScanCut(scan, states, [&](Value value) { return rows.contains(value); }).apply();
    });
  }
};
} // namespace
