//===- CutRows.cpp - operands that no chunk computes, in a scan before ----===//
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SharedRows.h"
#include "passes/scan/SmallStates.h"

namespace ejk {
#define GEN_PASS_DEF_CUTROWS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// Whether `vector`, an operand of a K×V op, is made of 16-bit rows, and of a rotation, or of rows
/// in f32, for which a chunk has no matmul.
static bool isForRowsBefore(ScanOp scan, Value vector) {
  if (!getElementTypeOrSelf(vector.getType()).isF32() || isa<BlockArgument>(vector))
    return false;
  bool hasNarrow = false, hasNoTiles = false;
  for (Value value : computedFrom(vector)) {
    if (value.getDefiningOp<RotateHalfOp>())
      hasNoTiles = true;
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg)
      continue;
    if (arg.getArgNumber() >= scan.getFirstStateArg())
      return false;
    Type element = getElementTypeOrSelf(arg.getType());
    if (arg.getArgNumber() >= scan.getSequences().size() || !isa<VectorType>(arg.getType()))
      continue;
    if (element.isF32())
      hasNoTiles = true;
    else if (element.isBF16() || element.isF16())
      hasNarrow = true;
  }
  return hasNarrow && hasNoTiles;
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
           return isForRowsBefore(scan, operand->get());
         });
}

namespace {
struct CutRowsPass : ejk::impl::CutRowsBase<CutRowsPass> {
  using CutRowsBase::CutRowsBase;

  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) -> SmallVector<ScanOp> {
      if (!hasCuttableRows(scan)) {
        SmallVector<Value> rows = shared ? sharedRows(scan) : SmallVector<Value>();
        numCut += rows.size();
        return rows.empty() ? SmallVector<ScanOp>() : cutSharedRows(scan, rows);
      }
      llvm::DenseSet<Value> rows;
      for (OpOperand *operand : operandsOf(scan))
        if (isForRowsBefore(scan, operand->get()))
          rows.insert(operand->get());
      numCut += rows.size();
      SmallVector<Value> states(scan.getStateArgs().begin(), scan.getStateArgs().end());
      return ScanCut(scan, states, [&](Value value) { return rows.contains(value); }).apply();
    });
  }
};
} // namespace
