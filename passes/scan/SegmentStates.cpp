//===- SegmentStates.cpp - what segments' starts need ----------------------===//
#include "passes/scan/SegmentStates.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"

using namespace mlir;
using namespace ejk;

FailureOr<SplitState> SegmentStates::followMatrix(Value arg, Value next) {
  SplitState state{SplitState::Kind::linear, {}, {}};
  for (Value value = next; value != arg;) {
    Operation *op = value.getDefiningOp();
    auto fromState = [&](Value operand) { return isStateful(operand); };
    if (auto decay = dyn_cast_or_null<DecayOp>(op)) {
      if (fromState(decay.getGate()))
        return decline(op, "its gate depends on a state");
      state.gates[unsigned(decay.getAxis())].push_back(decay.getGate());
    } else if (auto add = dyn_cast_or_null<OuterAddOp>(op)) {
      if (fromState(add.getKey()) || fromState(add.getValue())) {
        if (failed(checkCorrections(arg, next)))
          return failure();
        state.kind = SplitState::Kind::corrected;
      }
    } else {
      return decline(op ? op : scan.getOperation(),
                     "a K×V state's next value must be made of it by 'ejk.decay' and "
                     "'ejk.outer_add'");
    }
    value = op->getOperand(0);
  }
  if (state.kind == SplitState::Kind::corrected)
    for (SmallVector<Value> &gates : state.gates)
      gates.clear(); // the transitions have them
  return state;
}

/// Whether what is added on the way from `arg` to `next` corrects that state, and no other.
LogicalResult SegmentStates::checkCorrections(Value arg, Value next) {
  if (uncorrected)
    return decline(uncorrected, whyUncorrected);
  std::string why;
  Operation *obstacle = SegmentTransitions(scan, arg, next, corrections)
                            .findObstacle([&](Value v) { return isStateful(v); }, why);
  return obstacle ? decline(obstacle, why) : success();
}

FailureOr<SplitState> SegmentStates::followSum(unsigned number) {
  Value arg = scan.getStateArgs()[number], value = scan.getYield().getStates()[number];
  bool isAlone = true, hasOwnTerms = true, isRestarted = false;
  auto refuse = [&] {
    return decline(scan, "state " + Twine(number) +
                             ", a number or vector, must be a sum of itself "
                             "and terms that do not depend on it");
  };
  // What depends on the state in this step.
  llvm::DenseSet<Value> own = {arg};
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return own.contains(v); }))
      own.insert_range(op.getResults());
  while (value != arg) {
    Operation *op = value.getDefiningOp();
    if (!op || !own.contains(value))
      return refuse();
    if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      if (isRestarted || own.contains(checkpoint.getState()))
        return refuse();
      isRestarted = true;
      value = checkpoint.getVector();
      isAlone = true; // later values may be used
      continue;
    }
    isAlone &= value.hasOneUse();
    if (!isa<arith::AddFOp, arith::SubFOp>(op))
      return refuse();
    bool onRight = own.contains(op->getOperand(1));
    if (own.contains(op->getOperand(0)) == onRight || (isa<arith::SubFOp>(op) && onRight))
      return refuse();
    hasOwnTerms &= !isStateful(op->getOperand(!onRight));
    value = op->getOperand(onRight);
  }
  isAlone &= arg.hasOneUse();
  if (isRestarted) {
    if (!isAlone || !scan.getFinalStates()[number].use_empty())
      return decline(scan, "state " + Twine(number) +
                               " starts anew at saved states, and is used before or afterwards");
    return SplitState{SplitState::Kind::restarted, {}, {}};
  }
  if (isAlone)
    return SplitState{SplitState::Kind::accumulated, {}, {}};
  if (hasOwnTerms)
    return SplitState{SplitState::Kind::linear, {}, {}};
  return decline(scan, "state " + Twine(number) + " sums up what is read of another, and is read");
}

LogicalResult SegmentStates::analyze() {
  uncorrected = corrections.find(scan, whyUncorrected);
  stateful.insert_range(scan.getStateArgs());
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return isStateful(v); }))
      stateful.insert_range(op.getResults());
  for (auto [i, arg, next] : llvm::enumerate(scan.getStateArgs(), scan.getYield().getStates())) {
    if (std::optional<KnownState> known = findDivided(scan, i, divided, before)) {
      all.push_back({SplitState::Kind::known, {}, *known});
      continue;
    }
    FailureOr<SplitState> state = isMatrix(arg) ? followMatrix(arg, next) : followSum(i);
    if (failed(state))
      return failure();
    all.push_back(*state);
  }
  for (Value value : computedFrom(nextsOfTotals()))
    if (auto checkpoint = value.getDefiningOp<CheckpointOp>())
      return decline(checkpoint, "a state takes what is read of saved states");
  return success();
}

SmallVector<Value> SegmentStates::nextsOfTotals() {
  SmallVector<Value> nexts;
  for (auto [state, next] : llvm::zip(all, scan.getYield().getStates()))
    if (state.needsTotals())
      nexts.push_back(next);
  return nexts;
}
