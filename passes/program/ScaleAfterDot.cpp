//===- ScaleAfterDot.cpp - scale the result of a matmul, not an operand ----===//
//
// (diag(s) · A) · B = diag(s) · (A · B): if an operand of a matmul is 16-bit data scaled
// along an outer dimension, the result is scaled instead. The operand is then read from
// shared memory as it was loaded, without a pass through registers.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"
#include "passes/program/SimplifyProgram.h"

namespace ejk {
#define GEN_PASS_DEF_SCALEAFTERDOT
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// A matmul operand that is a 16-bit tile scaled along one dimension.
struct ScaledOperand {
  Value narrow, scales;
  unsigned dim;

  static std::optional<ScaledOperand> of(Value operand) {
    auto rounded = operand.getDefiningOp<arith::TruncFOp>();
    auto mul = rounded ? rounded.getIn().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!mul)
      return std::nullopt;
    for (unsigned side : {0, 1}) {
      auto widened = mul->getOperand(side).getDefiningOp<arith::ExtFOp>();
      auto spread = mul->getOperand(1 - side).getDefiningOp<BroadcastOp>();
      if (widened && spread && widened.getIn().getType() == operand.getType())
        return ScaledOperand{widened.getIn(), spread.getVector(), unsigned(spread.getDim())};
    }
    return std::nullopt;
  }
};
} // namespace

/// Scales the result of `dot` instead of an operand that is scaled along the result's dimension.
static bool scaleAfterDot(DotOp dot) {
  if (!matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    return false;
  for (unsigned side : {0, 1}) {
    std::optional<ScaledOperand> operand = ScaledOperand::of(dot->getOperand(side));
    bool transposed = side ? dot.getRhsTransposed() : dot.getLhsTransposed();
    if (!operand || operand->dim != (side != transposed))
      continue;
    OpBuilder b(dot);
    b.setInsertionPointAfter(dot);
    dot->setOperand(side, operand->narrow);
    auto spread = BroadcastOp::create(b, dot.getLoc(), dot.getType(), operand->scales, side);
    auto scaled = arith::MulFOp::create(b, dot.getLoc(), dot.getResult(), spread);
    dot.getResult().replaceAllUsesExcept(scaled, scaled);
    return true;
  }
  return false;
}

unsigned ejk::scaleAfterDot(ProgramOp program) {
  unsigned count = 0;
  program.walk([&](DotOp dot) { count += ::scaleAfterDot(dot); });
  if (count)
    simplifyProgram(program);
  return count;
}

namespace {
struct ScaleAfterDotPass : ejk::impl::ScaleAfterDotBase<ScaleAfterDotPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) { numScaled += scaleAfterDot(program); });
  }
};
} // namespace
