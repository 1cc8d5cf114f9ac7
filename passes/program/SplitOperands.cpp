//===- SplitOperands.cpp - factors of few channels in two terms -------------===//
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Rounding.h"
#include "passes/chunk/Chunk.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITOPERANDS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Of rows, of which there are some, and of states in memory.
static bool hasFewChannels(ProgramOp program) {
  bool hasRows = false;
  for (Type type : program.getBlock().getArgumentTypes()) {
    auto rows = dyn_cast<RowsType>(type);
    auto cells = dyn_cast<CellsType>(type);
    auto vector = dyn_cast_if_present<VectorType>(rows    ? rows.getRow()
                                                  : cells ? cells.getCell()
                                                          : Type());
    if (!vector)
      continue;
    hasRows |= bool(rows);
    if (llvm::any_of(vector.getShape(), [](int64_t size) { return size > kFewChannels; }))
      return false;
  }
  return hasRows;
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
      auto term = cast<DotOp>(b.clone(*dot));
      term.getLhsMutable().assign(lhs);
      term.getRhsMutable().assign(rhs);
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
  /// What rounding to `factor` has left out, rounded too; null where that is nothing. Of what is
  /// not finite, or is not when it is rounded, it is nothing as well.
  Value restOf(Value factor) {
    auto round = factor.getDefiningOp<arith::TruncFOp>();
    if (!round)
      return {};
    auto [known, isNew] = rests.try_emplace(factor);
    if (!isNew)
      return known->second;
    Value exact = round.getIn();
    auto type = cast<VectorType>(exact.getType());
    b.setInsertionPointAfter(round);
    Location loc = round.getLoc();
    auto splat = [&](double number) -> Value {
      return arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), number)));
    };
    Value back = arith::ExtFOp::create(b, loc, type, factor);
    Value left = arith::SubFOp::create(b, loc, exact, back);
    Value isFinite =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, loc, left),
                              splat(std::numeric_limits<double>::infinity()));
    Value rest = arith::SelectOp::create(b, loc, isFinite, left, splat(0));
    return rests[factor] = arith::TruncFOp::create(b, loc, factor.getType(), rest);
  }

  OpBuilder b;
  llvm::DenseMap<Value, Value> rests;
};

/// What is computed of a rounded factor, widened again, is computed of what was rounded.
static void takeUnrounded(ProgramOp program) {
  program.walk([](arith::ExtFOp wide) {
    auto round = wide.getIn().getDefiningOp<arith::TruncFOp>();
    if (!round || round.getIn().getType() != wide.getType() || !isa<VectorType>(wide.getType()))
      return;
    wide.replaceAllUsesWith(round.getIn());
    wide.erase();
  });
}

struct SplitOperandsPass : ejk::impl::SplitOperandsBase<SplitOperandsPass> {
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
