//===- NormalizeGates.cpp - one canonical operand for each gate ------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/Passes.h"

namespace ejk {
#define GEN_PASS_DEF_NORMALIZEGATES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// `value` widened to f32 elements, itself when it is f32 already.
static Value toF32(OpBuilder &b, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType().isF32())
    return value;
  return arith::ExtFOp::create(b, value.getLoc(), type.clone(b.getF32Type()), value);
}

namespace {
struct NormalizeGatesPass : ejk::impl::NormalizeGatesBase<NormalizeGatesPass> {
  void runOnOperation() override {
    getOperation()->walk([&](Operation *op) {
      if (isa<RecurrentOp, GLAOp>(op))
        normalize(op, *Recurrence::of(op));
    });
  }

  void normalize(Operation *op, Recurrence r) {
    bool perChannel = r.g && cast<RankedTensorType>(r.g.getType()).getRank() == 4;
    bool zeroGamma = r.gGamma && matchPattern(r.gGamma, m_AnyZeroFloat());
    if (!perChannel && !zeroGamma)
      return;
    OpBuilder b(op);
    if (perChannel) {
      // Equal types on both sides of the sum; a single gate keeps its own.
      r.gk = r.gk
                 ? arith::AddFOp::create(b, op->getLoc(), toF32(b, r.g), toF32(b, r.gk)).getResult()
                 : r.g;
      r.g = Value();
      ++numRank4;
    }
    if (zeroGamma) {
      r.gGamma = Value();
      ++numZero;
    }
    auto recurrent =
        RecurrentOp::create(b, op->getLoc(), r.output.getType(), r.finalState.getType(), r.query,
                            r.key, r.value, r.g, r.gGamma, r.gk, r.gv, r.initialState, r.cuSeqlens,
                            r.softmaxScale, r.reverse, r.sharedState);
    op->replaceAllUsesWith(recurrent);
    op->erase();
  }
};
} // namespace
