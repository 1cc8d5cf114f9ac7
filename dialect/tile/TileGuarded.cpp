//===- TileGuarded.cpp - verifier and canonical form of guarded paths -----===//
#include "dialect/tile/Branch.h"
#include "dialect/tile/TileVerify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

void GuardedOp::build(OpBuilder &, OperationState &state, TypeRange results, Value guard) {
  state.addOperands(guard);
  state.addTypes(results);
  for (unsigned i = 0; i < 2; ++i)
    state.addRegion()->emplaceBlock();
}

tile::YieldOp GuardedOp::getFastYield() { return cast<tile::YieldOp>(getFastBlock()->getTerminator()); }
tile::YieldOp GuardedOp::getExactYield() { return cast<tile::YieldOp>(getExactBlock()->getTerminator()); }

GuardedOp GuardedOp::addResults(OpBuilder &b, TypeRange more) {
  OpBuilder::InsertionGuard restore(b);
  b.setInsertionPoint(*this);
  SmallVector<Type> types(getResultTypes());
  llvm::append_range(types, more);
  auto wider = create(b, getLoc(), types, getGuard());
  wider.getFast().takeBody(getFast());
  wider.getExact().takeBody(getExact());
  (*this)->replaceAllUsesWith(wider.getResults().take_front(getNumResults()));
  erase();
  return wider;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void GuardedOp::getSuccessorRegions(RegionBranchPoint point,
                                    SmallVectorImpl<RegionSuccessor> &successors) {
  if (!point.isParent()) {
    successors.push_back(RegionSuccessor(getOperation(), getResults()));
    return;
  }
  successors.push_back(RegionSuccessor(&getFast()));
  successors.push_back(RegionSuccessor(&getExact()));
}

void GuardedOp::getRegionInvocationBounds(ArrayRef<Attribute>,
                                          SmallVectorImpl<InvocationBounds> &bounds) {
  bounds.append(2, InvocationBounds(/*lb=*/0, /*ub=*/1));
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

LogicalResult GuardedOp::verify() {
  for (auto [region, name] : llvm::zip_equal(ArrayRef<Region *>{&getFast(), &getExact()},
                                             ArrayRef<StringRef>{"fast", "exact"})) {
    Operation *yield = region->front().empty() ? nullptr : &region->front().back();
    if (!isa_and_nonnull<tile::YieldOp>(yield))
      return emitOpError() << "the " << name << " path must end with 'tile.yield' (C2)";
    // An operand that a rewrite left empty is the yield's own fault, which its verifier says next.
    if (llvm::is_contained(yield->getOperands(), Value()))
      continue;
    if (yield->getOperandTypes() != getResultTypes())
      return yield->emitOpError() << "ends the " << name << " path, which must yield ("
                                  << getResultTypes() << ") (C2), but yields ("
                                  << yield->getOperandTypes() << ")";
  }
  return success();
}

LogicalResult GuardedOp::verifyRegions() {
  auto isApproximate = [](Value value) {
    Operation *maker = value.getDefiningOp();
    return maker && maker->hasAttr(kPolynomialAttr);
  };
  WalkResult walked = getExact().walk([&](Operation *op) -> WalkResult {
    if (!op->hasAttr(kPolynomialAttr) && llvm::none_of(op->getOperands(), isApproximate))
      return WalkResult::advance();
    return op->emitOpError() << "is on the exact path of a 'tile.guarded', where no exponential "
                                "may be computed by a polynomial (C3)";
  });
  return failure(walked.wasInterrupted());
}

/// Whether `value` is always the result of a range guard. What a loop carries is followed to its
/// init and to what it yields, what a branch gives to both sides. `seen` ends cycles.
static bool isOfRangeGuard(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second || value.getDefiningOp<RangeGuardOp>())
    return true;
  auto ofLoop = [&](scf::ForOp loop, unsigned number) {
    return isOfRangeGuard(loop.getInitArgs()[number], seen) &&
           isOfRangeGuard(loop.getYieldedValues()[number], seen);
  };
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp());
    return loop && arg != loop.getInductionVar() &&
           ofLoop(loop, arg.getArgNumber() - loop.getNumInductionVars());
  }
  auto result = cast<OpResult>(value);
  if (auto loop = dyn_cast<scf::ForOp>(result.getOwner()))
    return ofLoop(loop, result.getResultNumber());
  Branch branch = Branch::of(result.getOwner());
  return branch && llvm::all_of(branch->getRegions(), [&](Region &side) {
           return isOfRangeGuard(
               side.front().getTerminator()->getOperand(result.getResultNumber()), seen);
         });
}

LogicalResult tile::verifyGuards(ProgramOp program) {
  WalkResult walked = program.walk([&](GuardedOp op) -> WalkResult {
    llvm::DenseSet<Value> seen;
    if (isOfRangeGuard(op.getGuard(), seen))
      return WalkResult::advance();
    return op.emitOpError() << "the guard must be the result of a 'tile.range_guard' (C1); a "
                               "branch on another condition is an 'scf.if'";
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Canonical form: that of `scf.if`
//===----------------------------------------------------------------------===//

namespace {
/// Drops results that nothing uses.
struct DropUnusedResults : OpRewritePattern<GuardedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GuardedOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> used;
    SmallVector<unsigned> numbers;
    for (OpResult result : op->getResults())
      if (!result.use_empty()) {
        used.push_back(result);
        numbers.push_back(result.getResultNumber());
      }
    if (used.size() == op.getNumResults())
      return failure();
    auto narrower = GuardedOp::create(rewriter, op.getLoc(), TypeRange(ValueRange(used)),
                                      op.getGuard());
    SmallVector<Value> replacements(op.getNumResults());
    for (auto [number, result] : llvm::zip_equal(numbers, narrower.getResults()))
      replacements[number] = result;
    for (auto [from, to] : llvm::zip_equal(op->getRegions(), narrower->getRegions())) {
      Block *block = &to.front();
      rewriter.mergeBlocks(&from.front(), block);
      auto yield = cast<tile::YieldOp>(block->getTerminator());
      SmallVector<Value> values = llvm::map_to_vector(
          numbers, [&](unsigned number) -> Value { return yield.getValues()[number]; });
      rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(values); });
    }
    rewriter.replaceOp(op, replacements);
    return success();
  }
};

/// Selects a result before the op if both paths yield values from before it.
struct SelectOuterValues : OpRewritePattern<GuardedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GuardedOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    for (OpResult result : op->getResults()) {
      Value fast = op.getFastYield().getValues()[result.getResultNumber()],
            exact = op.getExactYield().getValues()[result.getResultNumber()];
      if (result.use_empty() || op.getFast().isAncestor(fast.getParentRegion()) ||
          op.getExact().isAncestor(exact.getParentRegion()))
        continue;
      Value outer = fast == exact ? fast
                                  : arith::SelectOp::create(rewriter, op.getLoc(), op.getGuard(),
                                                            fast, exact)
                                        .getResult();
      rewriter.replaceAllUsesWith(result, outer);
      changed = true;
    }
    return success(changed); // DropUnusedResults drops the results
  }
};

/// Merges the op with the one before it if both have the same guard.
struct MergeAdjacent : OpRewritePattern<GuardedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GuardedOp op, PatternRewriter &rewriter) const override {
    auto before = dyn_cast_or_null<GuardedOp>(op->getPrevNode());
    if (!before || before.getGuard() != op.getGuard())
      return failure();
    SmallVector<Type> types(before.getResultTypes());
    llvm::append_range(types, op.getResultTypes());
    auto merged = GuardedOp::create(rewriter, op.getLoc(), types, op.getGuard());
    for (unsigned path = 0; path < 2; ++path) {
      Region &first = before->getRegion(path), &second = op->getRegion(path);
      Block *block = &merged->getRegion(path).front();
      rewriter.mergeBlocks(&first.front(), block);
      auto yield = cast<tile::YieldOp>(block->getTerminator());
      SmallVector<Value> values(yield.getValues());
      rewriter.eraseOp(yield);
      // On this path the earlier op's results are what the path yields.
      for (auto [result, value] : llvm::zip_equal(before.getResults(), values))
        rewriter.replaceUsesWithIf(result, value, [&](OpOperand &use) {
          return second.isAncestor(use.getOwner()->getParentRegion());
        });
      rewriter.mergeBlocks(&second.front(), block);
      auto end = cast<tile::YieldOp>(block->getTerminator());
      llvm::append_range(values, end.getValues());
      rewriter.modifyOpInPlace(end, [&] { end->setOperands(values); });
    }
    unsigned count = before.getNumResults();
    rewriter.replaceOp(op, merged.getResults().drop_front(count));
    rewriter.replaceOp(before, merged.getResults().take_front(count));
    return success();
  }
};
} // namespace

void GuardedOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnusedResults, SelectOuterValues, MergeAdjacent>(context);
}
