//===- EjkFolds.cpp - folds and canonicalisations -------------------------===//
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

/// decay(S, 0) is S: exp(0) = 1 exactly.
OpFoldResult DecayOp::fold(FoldAdaptor adaptor) {
  if (matchPattern(adaptor.getGate(), m_AnyZeroFloat()))
    return getState();
  return {};
}

namespace {
/// A channel gate that is one number in every channel is a head gate.
struct DecayOfBroadcast : OpRewritePattern<DecayOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DecayOp op, PatternRewriter &rewriter) const override {
    if (op.getAxis() == Axis::head)
      return rewriter.notifyMatchFailure(op, "already a head gate");
    Value scalar;
    DenseElementsAttr constant;
    if (auto broadcast = op.getGate().getDefiningOp<vector::BroadcastOp>())
      scalar = broadcast.getSource();
    else if (matchPattern(op.getGate(), m_Constant(&constant)) && constant.isSplat())
      scalar =
          arith::ConstantOp::create(rewriter, op.getLoc(), constant.getSplatValue<FloatAttr>());
    if (!scalar || !scalar.getType().isF32())
      return rewriter.notifyMatchFailure(op, "the gate differs between channels");
    rewriter.replaceOpWithNewOp<DecayOp>(op, op.getState().getType(), op.getState(), scalar,
                                         Axis::head);
    return success();
  }
};

/// Whether something used depends on state `number` of `op`: a final state, an output, or another
/// such state. Those that feed only themselves and each other are not live. The search goes from
/// the state to its uses and ends with the first answer, because a pattern asks whenever an op of
/// the step changes.
bool isLiveState(ScanOp op, unsigned number) {
  YieldOp yield = op.getYield();
  unsigned numStates = op.getNumStates(), numOutputs = op.getOutputs().size();
  auto isUsed = [&](unsigned place) {
    Value result = place < numStates                ? op.getFinalStates()[place]
                   : place < numStates + numOutputs ? op.getOutputs()[place - numStates]
                                                    : op.getSaves()[place - numStates - numOutputs];
    return !result.use_empty();
  };
  if (isUsed(number))
    return true;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> worklist = {op.getStateArgs()[number]};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      unsigned place = use.getOperandNumber();
      if (use.getOwner() != yield)
        llvm::append_range(worklist, use.getOwner()->getResults());
      else if (isUsed(place))
        return true;
      else if (place < numStates)
        worklist.push_back(op.getStateArgs()[place]);
    }
  }
  return false;
}

/// Drops what a scan computes or takes and nobody uses: outputs and saves, states
/// that feed only dropped ones, and operands whose step value has no use.
struct DropUnused : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp op, PatternRewriter &rewriter) const override {
    YieldOp yield = op.getYield();
    llvm::BitVector keepOutput(op.getOutputs().size()), keepState(op.getNumStates());
    for (unsigned i = 0, e = keepState.size(); i < e; ++i)
      keepState[i] = isLiveState(op, i);
    for (unsigned i = 0, e = keepOutput.size(); i < e; ++i)
      keepOutput[i] = !op.getOutputs()[i].use_empty();
    llvm::BitVector keepSave(op.getSaves().size()), keepSaved(op.getSavedStates().size());
    for (unsigned i = 0, e = keepSave.size(); i < e; ++i)
      keepSave[i] = !op.getSaves()[i].use_empty();
    for (unsigned i = 0, e = keepSaved.size(); i < e; ++i)
      keepSaved[i] = !op.getSavedArgs()[i].use_empty();
    // The first sequence gives H; it stays.
    llvm::BitVector keepSequence(op.getSequences().size(), true),
        keepParameter(op.getParameters().size(), true);
    for (unsigned i = 1, e = keepSequence.size(); i < e; ++i)
      keepSequence[i] = !op.getSequenceArgs()[i].use_empty();
    // So does the first query, where an output has its heads.
    llvm::BitVector keepQuery(op.getQueries().size(), true);
    for (unsigned i = 0, e = keepQuery.size(); i < e; ++i)
      keepQuery[i] = !op.getQueryArgs()[i].use_empty();
    if (!keepQuery.empty() && !keepQuery[0]) {
      llvm::DenseSet<Value> queryValues = op.findQueryValues();
      keepQuery[0] = llvm::any_of(keepOutput.set_bits(), [&](unsigned i) {
        return queryValues.contains(yield.getOutputs()[i]);
      });
    }
    for (unsigned i = 0, e = keepParameter.size(); i < e; ++i)
      keepParameter[i] = !op.getParameterArgs()[i].use_empty();
    if (keepOutput.all() && keepState.all() && keepSequence.all() && keepParameter.all() &&
        keepSave.all() && keepSaved.all() && keepQuery.all())
      return rewriter.notifyMatchFailure(op, "everything is used");
    if (llvm::any_of(op.getStep(), [](Operation &inner) { return inner.getNumRegions() != 0; }))
      return rewriter.notifyMatchFailure(op, "branches become selects first");

    SmallVector<Type> outputTypes, stateTypes, parameterTypes, saveTypes;
    SmallVector<Value> sequences, queries, parameters, initials, outputs, states, savedStates,
        saves;
    for (unsigned i : keepSave.set_bits()) {
      saveTypes.push_back(op.getSaves()[i].getType());
      saves.push_back(yield.getSaves()[i]);
    }
    for (unsigned i : keepSaved.set_bits())
      savedStates.push_back(op.getSavedStates()[i]);
    for (unsigned i : keepOutput.set_bits()) {
      outputTypes.push_back(op.getOutputs()[i].getType());
      outputs.push_back(yield.getOutputs()[i]);
    }
    for (unsigned i : keepState.set_bits()) {
      stateTypes.push_back(op.getFinalStates()[i].getType());
      initials.push_back(op.getInitialState(i));
      states.push_back(yield.getStates()[i]);
    }
    for (unsigned i : keepSequence.set_bits())
      sequences.push_back(op.getSequences()[i]);
    for (unsigned i : keepQuery.set_bits())
      queries.push_back(op.getQueries()[i]);
    for (unsigned i : keepParameter.set_bits()) {
      parameters.push_back(op.getParameters()[i]);
      parameterTypes.push_back(op.getParameterArgs()[i].getType());
    }
    auto scan =
        ScanOp::create(rewriter, op.getLoc(), outputTypes, stateTypes, sequences, parameters,
                       parameterTypes, initials, op.getCuSeqlens(), op.getReverse(),
                       saves.empty() && savedStates.empty() ? 0 : *op.getSaveEvery(), savedStates,
                       saveTypes, op.getSegmentsAttr(), queries, op.getTrailingRows());
    scan->setDiscardableAttrs(op->getDiscardableAttrDictionary());

    rewriter.setInsertionPoint(yield);
    YieldOp::create(rewriter, yield.getLoc(), states, outputs, saves);
    rewriter.eraseOp(yield);
    // With the old yield gone, and what served only it, a dropped argument has no
    // use left to replace.
    for (Operation &unused : llvm::make_early_inc_range(llvm::reverse(op.getStep())))
      if (isOpTriviallyDead(&unused))
        rewriter.eraseOp(&unused);
    SmallVector<Value> replacements;
    Block &step = scan.getStep();
    unsigned next = 0;
    for (const llvm::BitVector *keep :
         {&keepSequence, &keepQuery, &keepParameter, &keepSaved, &keepState})
      for (unsigned i = 0, e = keep->size(); i < e; ++i)
        replacements.push_back((*keep)[i] ? Value(step.getArgument(next++)) : Value());
    rewriter.inlineBlockBefore(&op.getStep(), &step, step.end(), replacements);
    for (auto [i, output] : llvm::enumerate(keepOutput.set_bits()))
      rewriter.replaceAllUsesWith(op.getOutputs()[output], scan.getOutputs()[i]);
    for (auto [i, state] : llvm::enumerate(keepState.set_bits()))
      rewriter.replaceAllUsesWith(op.getFinalStates()[state], scan.getFinalStates()[i]);
    for (auto [i, save] : llvm::enumerate(keepSave.set_bits()))
      rewriter.replaceAllUsesWith(op.getSaves()[save], scan.getSaves()[i]);
    rewriter.eraseOp(op);
    return success();
  }
};

/// A step's `scf.if` computes both branches and selects between their results. A number
/// that a branch takes from outside is 1 where the branch is not taken: the derivative of
/// that select stops what the branch's ops give back, which 0·∞ may have made NaN.
struct IfToSelects : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::IfOp op, PatternRewriter &rewriter) const override {
    if (!isa_and_nonnull<ScanOp>(op->getParentOp()))
      return rewriter.notifyMatchFailure(op, "does not stand in a step itself");
    SmallVector<Value> results[2];
    for (Region *region : {&op.getThenRegion(), &op.getElseRegion()}) {
      bool isThen = region == &op.getThenRegion();
      guardInputs(op, *region, isThen, rewriter);
      Operation *yield = region->front().getTerminator();
      llvm::append_range(results[isThen], yield->getOperands());
      rewriter.eraseOp(yield);
      rewriter.inlineBlockBefore(&region->front(), op);
    }
    SmallVector<Value> selected;
    for (auto [taken, other] : llvm::zip(results[1], results[0]))
      selected.push_back(
          arith::SelectOp::create(rewriter, op.getLoc(), op.getCondition(), taken, other));
    rewriter.replaceOp(op, selected);
    return success();
  }

private:
  static void guardInputs(scf::IfOp op, Region &region, bool isThen, PatternRewriter &rewriter) {
    llvm::SetVector<Value> inputs;
    getUsedValuesDefinedAbove(region, inputs);
    auto isInBranch = [&](OpOperand &use) {
      return region.isAncestor(use.getOwner()->getParentRegion()) &&
             !isa<scf::YieldOp>(use.getOwner());
    };
    for (Value input : inputs) {
      Type type = input.getType();
      auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
      if (!element || matchPattern(input, m_Constant()) ||
          llvm::none_of(input.getUses(), isInBranch))
        continue;
      TypedAttr number = rewriter.getFloatAttr(element, 1.0);
      if (auto vector = dyn_cast<VectorType>(type))
        number = DenseElementsAttr::get(vector, Attribute(number));
      Value one = arith::ConstantOp::create(rewriter, op.getLoc(), number);
      Value inside = arith::SelectOp::create(rewriter, op.getLoc(), op.getCondition(),
                                             isThen ? input : one, isThen ? one : input);
      rewriter.replaceUsesWithIf(input, inside, isInBranch);
    }
  }
};

/// Two outputs of one step value are one.
struct MergeOutputs : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp op, PatternRewriter &rewriter) const override {
    llvm::DenseMap<Value, Value> first;
    bool changed = false;
    for (auto [output, value] : llvm::zip(op.getOutputs(), op.getYield().getOutputs())) {
      auto [it, isNew] = first.try_emplace(value, output);
      if (isNew || output.use_empty() || it->second.getType() != output.getType())
        continue;
      rewriter.replaceAllUsesWith(output, it->second);
      changed = true;
    }
    return changed ? success() : rewriter.notifyMatchFailure(op, "the outputs all differ");
  }
};
} // namespace

void DecayOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DecayOfBroadcast>(context);
}
void ScanOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnused, IfToSelects, MergeOutputs>(context);
}
