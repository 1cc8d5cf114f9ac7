//===- ToScan.cpp - lower recurrences to ejk.scan --------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"

namespace ejk {
#define GEN_PASS_DEF_TOSCAN
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// `value` (a scalar or vector of any float type) with f32 elements.
static Value widen(OpBuilder &b, Location loc, Value value) {
  Type f32 = b.getF32Type(), type = value.getType();
  if (getElementTypeOrSelf(type) == f32)
    return value;
  auto vector = dyn_cast<VectorType>(type);
  return arith::ExtFOp::create(b, loc, vector ? Type(vector.clone(f32)) : f32, value);
}

/// γ_h = -(8/H)·factor·h, from the step's head index.
static Value lightningGamma(OpBuilder &b, Location loc, double factor) {
  auto toFloat = [&](Value index) -> Value {
    Value i = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), i);
  };
  Value h = toFloat(HeadIndexOp::create(b, loc, b.getIndexType()));
  Value heads = toFloat(NumHeadsOp::create(b, loc, b.getIndexType()));
  Value slope = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(-8.0 * factor));
  // Divide last, so that only the multiplication rounds before it.
  return arith::DivFOp::create(b, loc, arith::MulFOp::create(b, loc, slope, h), heads);
}

static void replaceByScan(Operation *op, const Recurrence &r) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  // The first has a head for each state.
  SmallVector<Value> sequences = {r.query, r.key, r.value}, queries;
  if (r.sharedState) {
    sequences = {r.value, r.key};
    queries = {r.query};
  } else if (r.beta) {
    sequences = {r.value, r.query, r.key};
  }
  if (r.beta)
    sequences.push_back(r.beta);
  for (Value gate : {r.g, r.gk, r.gv})
    if (gate)
      sequences.push_back(gate);
  SmallVector<Value> parameters;
  SmallVector<Type> parameterTypes;
  if (r.gGamma) {
    parameters.push_back(r.gGamma);
    parameterTypes.push_back(b.getF32Type());
  }
  // The op's two state tensors may have different static sizes; the scan's have one type.
  Value initial = r.initialState;
  if (initial && initial.getType() != r.finalState.getType())
    initial = tensor::CastOp::create(b, loc, r.finalState.getType(), initial);
  auto scan = ScanOp::create(b, loc, r.output.getType(), r.finalState.getType(), sequences,
                             parameters, parameterTypes, initial, r.cuSeqlens, r.reverse,
                             /*saveEvery=*/0, /*savedStates=*/{}, /*saveTypes=*/{},
                             /*segments=*/{}, queries);

  b.setInsertionPointToStart(&scan.getStep());
  auto args = scan.getSequenceArgs().begin();
  auto nextRow = [&] { return widen(b, loc, *args++); };
  Value q, k, v, beta;
  if (r.sharedState) {
    v = nextRow(), k = nextRow(), q = widen(b, loc, scan.getQueryArgs().front());
  } else if (r.beta) {
    v = nextRow(), q = nextRow(), k = nextRow();
  } else {
    q = nextRow(), k = nextRow(), v = nextRow();
  }
  if (r.beta)
    beta = nextRow();
  Value state = scan.getStateArgs().front();
  auto decay = [&](Value gate, Axis axis) {
    state = DecayOp::create(b, loc, state.getType(), state, gate, axis);
  };
  if (r.g)
    decay(nextRow(), Axis::head);
  if (r.gGamma)
    decay(scan.getParameterArgs().front(), Axis::head);
  if (r.lightningFactor)
    decay(lightningGamma(b, loc, *r.lightningFactor), Axis::head);
  if (r.gk)
    decay(nextRow(), Axis::key);
  if (r.gv)
    decay(nextRow(), Axis::value);
  if (beta) {
    // u = beta (v − S'ᵀk)
    Value read = ReadOp::create(b, loc, state, k, Axis::key);
    Value factor = vector::BroadcastOp::create(b, loc, v.getType(), beta);
    v = arith::MulFOp::create(b, loc, factor, arith::SubFOp::create(b, loc, v, read));
  }
  state = OuterAddOp::create(b, loc, state.getType(), state, k, v);
  // The scale multiplies the K channels of the query, before the sum over them.
  Value scale = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(cast<VectorType>(q.getType()), float(r.scale())));
  Value read = ReadOp::create(b, loc, state, arith::MulFOp::create(b, loc, q, scale), Axis::key);
  Type outputType = ScanOp::getStepType(cast<RankedTensorType>(r.output.getType()), 3);
  if (read.getType() != outputType)
    read = arith::TruncFOp::create(b, loc, outputType, read);
  YieldOp::create(b, loc, state, read);
  op->replaceAllUsesWith(scan);
  op->erase();
}

namespace {
struct ToScanPass : ejk::impl::ToScanBase<ToScanPass> {
  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](Operation *op) {
      std::optional<Recurrence> r = Recurrence::of(op);
      if (!r)
        return WalkResult::advance();
      if (r->g && cast<RankedTensorType>(r->g.getType()).getRank() == 4) {
        op->emitError("a rank-4 'g' must become 'gk' first: run --ejk-normalize-gates");
        return WalkResult::interrupt();
      }
      replaceByScan(op, *r);
      ++numScans;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
