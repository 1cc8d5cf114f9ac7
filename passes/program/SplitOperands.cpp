//===- SplitOperands.cpp - split matmul operands into two terms ------------===//
//
// With few channels, the errors of rounding matmul operands to 16 bits do not average out.
// A rounded operand is therefore split into two 16-bit terms, x ≈ x1 + x2, and a matmul
// with the second term is added. The matmuls are cheap because they are small.
//
//===----------------------------------------------------------------------===//
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

/// Whether the rows, at least one kind, and the states in memory have few channels.
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

  /// Adds matmuls with the rests of `dot`'s operands, but not the one with both rests.
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
  /// The rest that rounding to `operand` dropped, rounded; null if nothing was rounded. The rest of
  /// an infinite or overflowing element is zero.
  Value restOf(Value operand) {
    auto round = operand.getDefiningOp<arith::TruncFOp>();
    if (!round)
      return {};
    auto [known, isNew] = rests.try_emplace(operand);
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
    Value back = arith::ExtFOp::create(b, loc, type, operand);
    Value left = arith::SubFOp::create(b, loc, exact, back);
    Value isFinite =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, loc, left),
                              splat(std::numeric_limits<double>::infinity()));
    Value rest = arith::SelectOp::create(b, loc, isFinite, left, splat(0));
    return rests[operand] = arith::TruncFOp::create(b, loc, operand.getType(), rest);
  }

  OpBuilder b;
  llvm::DenseMap<Value, Value> rests;
};

/// Replaces a rounded and widened operand by the original in other computations.
static void useUnrounded(ProgramOp program) {
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
      useUnrounded(program);
      for (DotOp dot : dots)
        numSplit += splitter.run(dot);
    });
  }
};
} // namespace
