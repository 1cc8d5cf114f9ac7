//===- EjkStep.cpp - what may stand in a step -----------------------------===//
#include "dialect/ejk/EjkStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace ejk;

/// Whether values of `type` are numbers, vectors or matrices.
static bool isStepType(Type type) {
  if (auto vector = dyn_cast<VectorType>(type)) {
    if (vector.isScalable() || vector.getRank() < 1 || vector.getRank() > 2)
      return false;
    type = vector.getElementType();
  }
  return type.isIntOrIndexOrFloat();
}

static bool isElementwise(Operation *op) {
  if (isa<vector::BroadcastOp>(op))
    return true;
  if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  return op->hasTrait<OpTrait::ConstantLike>() || OpTrait::hasElementwiseMappableTraits(op);
}

static LogicalResult verifyBranches(scf::IfOp op);

/// Checks an op that is no step op (C10).
static LogicalResult verifyElementwise(Operation *op) {
  if (auto branches = dyn_cast<scf::IfOp>(op))
    return verifyBranches(branches);
  if (!isElementwise(op))
    return op->emitOpError("cannot be part of a step (C10); a step holds ejk's step ops, "
                           "elementwise arith and math, vector.broadcast, and scf.if of "
                           "elementwise ops");
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (!isStepType(type))
        return op->emitOpError() << "has a value of type " << type
                                 << "; a step computes with numbers and vectors (C10)";
  return success();
}

static LogicalResult verifyBranches(scf::IfOp op) {
  if (op.getNumResults() == 0)
    return op.emitOpError("has no result, so it can do nothing in a step (C10)");
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()})
    for (Operation &inner : region->front().without_terminator()) {
      if (failed(verifyElementwise(&inner)))
        return failure();
      if (!isa<scf::IfOp>(inner) && !isSpeculatable(&inner))
        return inner.emitOpError("may have undefined behaviour, and a step computes both branches "
                                 "of 'scf.if' (C10); use a divisor that is a constant other than "
                                 "zero, or take it out of the branch");
    }
  for (Type type : op.getResultTypes())
    if (!isStepType(type))
      return op.emitOpError() << "has a result of type " << type
                              << "; a step computes with numbers and vectors (C10)";
  return success();
}

ReadOp CancellingPairOp::getReadOp() { return getRead().getDefiningOp<ReadOp>(); }

/// Checks where a cancelling pair takes its read from, and that it is a term of a sum.
static LogicalResult verifyPair(CancellingPairOp pair, ScanOp scan) {
  if (!pair.getReadOp() && !llvm::is_contained(scan.getSequenceArgs(), pair.getRead()))
    return pair.emitOpError(
        "multiplies what no 'ejk.read' of this step and no sequence gives (C1); "
        "use 'arith.mulf' for a product that cancels no other");
  unsigned states = scan.getNumStates(), outputs = scan.getOutputs().size();
  for (OpOperand &use : pair->getUses()) {
    unsigned number = use.getOperandNumber();
    bool isOutput = isa<YieldOp>(use.getOwner()) && number >= states && number < states + outputs;
    if (isOutput || isa<SumOp, arith::AddFOp, arith::SubFOp>(use.getOwner()))
      continue;
    InFlightDiagnostic error = pair.emitOpError(
        "must be a term of a sum: of 'ejk.sum', 'arith.addf' or 'arith.subf', or an output that a "
        "later scan sums (C2)");
    error.attachNote(use.getOwner()->getLoc()) << "'" << use.getOwner()->getName() << "' uses it";
    return error;
  }
  return success();
}

LogicalResult ejk::verifyStepOps(ScanOp scan) {
  for (Operation &op : scan.getStep().without_terminator())
    if (auto pair = dyn_cast<CancellingPairOp>(op)) {
      if (failed(verifyPair(pair, scan)))
        return failure();
    } else if (!isa<DecayOp, OuterAddOp, ReadOp, CheckpointOp, SumOp, MaxOp, RotateHalfOp,
                    StepIndexOp, GateGradientOp, HeadIndexOp, NumHeadsOp>(op) &&
               failed(verifyElementwise(&op))) {
      return failure();
    }
  return success();
}

LogicalResult RotateHalfOp::verify() {
  int64_t channels = cast<VectorType>(getVector().getType()).getDimSize(0);
  if (channels % 2)
    return emitOpError() << "the vector must have an even number of channels (C1), but has "
                         << channels;
  return success();
}
