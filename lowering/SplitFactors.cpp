//===- SplitFactors.cpp - factors of few channels in two terms -------------===//
#include "lowering/Passes.h"
#include "lowering/TileLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Chunk.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITFACTORS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static bool hasFewChannels(ProgramOp program) {
  return llvm::all_of(program.getBlock().getArgumentTypes(), [](Type type) {
    auto rows = dyn_cast<RowsType>(type);
    auto row = rows ? dyn_cast<VectorType>(rows.getRow()) : VectorType();
    return !row || row.getDimSize(0) <= kFewChannels;
  });
}

namespace {
class Splitter {
public:
  explicit Splitter(MLIRContext *context) : b(context) {}

  /// Adds what `dot` leaves out, less one product of two such rests.
  bool run(DotOp dot) {
    Value left = restOf(dot.getLhs()), right = restOf(dot.getRhs());
    if (!left && !right)
      return false;
    b.setInsertionPoint(dot);
    Value acc = dot.getAcc();
    auto add = [&](Value lhs, Value rhs) {
      IRMapping factors;
      factors.map(dot.getLhs(), lhs);
      factors.map(dot.getRhs(), rhs);
      auto term = cast<DotOp>(b.clone(*dot, factors));
      term.getAccMutable().assign(acc);
      acc = term;
    };
    if (left)
      add(left, dot.getRhs());
    if (right)
      add(dot.getLhs(), right);
    dot.getAccMutable().assign(acc);
    return true;
  }

private:
  /// What rounding to `factor` has left out, rounded too; null where that is nothing.
  Value restOf(Value factor) {
    auto round = factor.getDefiningOp<arith::TruncFOp>();
    if (!round)
      return {};
    auto [known, isNew] = rests.try_emplace(factor);
    if (!isNew)
      return known->second;
    Value exact = round.getIn();
    b.setInsertionPointAfter(round);
    Location loc = round.getLoc();
    Value back = arith::ExtFOp::create(b, loc, exact.getType(), factor);
    Value rest = arith::SubFOp::create(b, loc, exact, back);
    return rests[factor] = arith::TruncFOp::create(b, loc, factor.getType(), rest);
  }

  OpBuilder b;
  llvm::DenseMap<Value, Value> rests;
};

/// What is computed of a rounded factor, widened again, is computed of what was rounded.
static void takeUnrounded(ProgramOp program) {
  program.walk([](arith::ExtFOp wide) {
    auto round = wide.getIn().getDefiningOp<arith::TruncFOp>();
    if (round && round.getIn().getType() == wide.getType() && isa<VectorType>(wide.getType()))
      wide.replaceAllUsesWith(round.getIn());
  });
}

struct SplitFactorsPass : ejk::impl::SplitFactorsBase<SplitFactorsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr) || !hasFewChannels(program))
        return;
      Splitter splitter(&getContext());
      SmallVector<DotOp> dots;
      program.walk([&](DotOp dot) { dots.push_back(dot); });
      takeUnrounded(program);
      for (DotOp dot : dots)
        numSplit += splitter.run(dot);
    });
  }
};
} // namespace
