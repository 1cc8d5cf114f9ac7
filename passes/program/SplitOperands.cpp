//===- SplitOperands.cpp - split matmul operands into two terms ------------===//
//
// With few channels, the errors of rounding matmul operands to 16 bits do not average out.
// A rounded operand is therefore split into two 16-bit terms, x ≈ x1 + x2, and a matmul
// with the second term is added. The matmuls are cheap because they are small.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/program/OperandTerms.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

namespace ejk {
#define GEN_PASS_DEF_SPLITOPERANDS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether a state, or a sum over rows or channels, is made of what `dot` gives, and not only rows
/// that are stored. With `mayBeElsewhere`, another program may make the sum of rows that are stored
/// in f32.
static bool isSummed(DotOp dot, bool mayBeElsewhere) {
  llvm::SetVector<Value> reached;
  reached.insert(dot.getResult());
  for (unsigned i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses()) {
      Operation *user = use.getOwner();
      if (auto store = dyn_cast<StoreOp>(user)) {
        if (mayBeElsewhere && getElementTypeOrSelf(store.getTile().getType()).isF32())
          return true;
        continue;
      }
      if (Branch::isEnd(user)) {
        reached.insert(user->getParentOp()->getResult(use.getOperandNumber()));
        continue;
      }
      if (user->getNumResults() == 0 || isa<CumsumOp, tile::SumOp>(user))
        return true;
      reached.insert(user->result_begin(), user->result_end());
    }
  return false;
}

/// The state that a loop carries in f32 and `operand` is the rounding of; null if it is of none.
static BlockArgument carriedState(Value operand) {
  auto round = operand.getDefiningOp<arith::TruncFOp>();
  auto state = round ? dyn_cast<BlockArgument>(round.getIn()) : BlockArgument();
  return state && isa<scf::ForOp>(state.getOwner()->getParentOp()) ? state : BlockArgument();
}

namespace {
class Splitter {
public:
  explicit Splitter(MLIRContext *context) : b(context) {}

  /// Adds matmuls with the rests of `dot`'s operands that are `ofLeft` and `ofRight`, but not the one
  /// with both rests.
  bool run(DotOp dot, bool ofLeft, bool ofRight) {
    Value left = ofLeft ? restOf(dot.getLhs()) : Value();
    Value right = ofRight ? restOf(dot.getRhs()) : Value();
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

/// Which operands of `dot` may be split: those that are not split already, as a solve's are. A
/// second term is not, nor what it is multiplied by. Nor is a first term whose second one a matmul
/// takes that `dot` adds to, or that adds to it.
static std::pair<bool, bool> unsplitOperands(DotOp dot) {
  if (firstTermOf(dot.getLhs()) || firstTermOf(dot.getRhs()))
    return {false, false};
  bool left = true, right = true;
  auto visit = [&](DotOp other) {
    left &= firstTermOf(other.getLhs()) != dot.getLhs();
    right &= firstTermOf(other.getRhs()) != dot.getRhs();
  };
  for (auto other = dot.getAcc().getDefiningOp<DotOp>(); other;
       other = other.getAcc().getDefiningOp<DotOp>())
    visit(other);
  auto addedTo = [](DotOp one) {
    auto user = one->hasOneUse() ? dyn_cast<DotOp>(*one->user_begin()) : DotOp();
    return user && user.getAcc() == one ? user : DotOp();
  };
  for (DotOp other = addedTo(dot); other; other = addedTo(other))
    visit(other);
  return {left, right};
}

static bool isFirstTerm(arith::TruncFOp round) {
  return llvm::any_of(round->getUsers(), [&](Operation *user) {
    auto wide = dyn_cast<arith::ExtFOp>(user);
    return wide && llvm::any_of(wide->getUsers(),
                                [&](Operation *other) { return isRest(other, wide, round); });
  });
}

/// Replaces a rounded and widened operand by the original in other computations, but not the first of
/// two terms: its rest would be zero, and its sum with the second one would have the rest twice.
static void useUnrounded(ProgramOp program) {
  program.walk([](arith::ExtFOp wide) {
    auto round = wide.getIn().getDefiningOp<arith::TruncFOp>();
    if (!round || round.getIn().getType() != wide.getType() || !isa<VectorType>(wide.getType()) ||
        isFirstTerm(round))
      return;
    wide.replaceAllUsesWith(round.getIn());
    wide.erase();
  });
}

struct SplitOperandsPass : ejk::impl::SplitOperandsBase<SplitOperandsPass> {
  using Base::Base;

  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      Matmuls matmuls = matmulsToSplit(program, twoTermStates);
      if (program->hasAttr(kWarpsAttr) || matmuls == Matmuls::none)
        return;
      Splitter splitter(&getContext());
      SmallVector<std::pair<DotOp, std::pair<bool, bool>>> dots;
      program.walk([&](DotOp dot) {
        bool readsState = carriedState(dot.getLhs()) || carriedState(dot.getRhs());
        if (matmuls == Matmuls::all ||
            (isSummed(dot, /*mayBeElsewhere=*/matmuls == Matmuls::ofSums) &&
             (matmuls == Matmuls::ofSums || readsState)))
          dots.push_back({dot, unsplitOperands(dot)});
      });
      useUnrounded(program);
      for (auto [dot, operands] : dots)
        numSplit += splitter.run(dot, operands.first, operands.second);
    });
  }
};
} // namespace
