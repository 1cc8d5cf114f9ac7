//===- ScaleAfterDot.cpp - what factors were multiplied by, after products -----===//
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
/// A factor of a product that was there in 16 bits, and was scaled along one dimension.
struct ScaledFactor {
  Value narrow, scales;
  unsigned dim;

  static std::optional<ScaledFactor> of(Value factor) {
    auto rounded = factor.getDefiningOp<arith::TruncFOp>();
    auto product = rounded ? rounded.getIn().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!product)
      return std::nullopt;
    for (unsigned side : {0, 1}) {
      auto widened = product->getOperand(side).getDefiningOp<arith::ExtFOp>();
      auto spread = product->getOperand(1 - side).getDefiningOp<SpreadOp>();
      if (widened && spread && widened.getIn().getType() == factor.getType())
        return ScaledFactor{widened.getIn(), spread.getVector(), unsigned(spread.getDim())};
    }
    return std::nullopt;
  }
};
} // namespace

/// Scales what `dot` gives by what one of its factors was scaled by along the dimension that
/// the result has of it.
static bool scaleAfterDot(DotOp dot) {
  if (!matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    return false;
  for (unsigned side : {0, 1}) {
    std::optional<ScaledFactor> factor = ScaledFactor::of(dot->getOperand(side));
    bool transposed = side ? dot.getRhsTransposed() : dot.getLhsTransposed();
    if (!factor || factor->dim != (side != transposed))
      continue;
    OpBuilder b(dot);
    b.setInsertionPointAfter(dot);
    dot->setOperand(side, factor->narrow);
    auto spread = SpreadOp::create(b, dot.getLoc(), dot.getType(), factor->scales, side);
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
