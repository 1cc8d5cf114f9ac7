//===- StepAnalysis.cpp - which values of a step have derivatives ----------===//
#include "passes/autodiff/StepAnalysis.h"
#include "passes/autodiff/AdjointRules.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace ejk;

Segment Segment::of(Value matrix) {
  Segment segment;
  while (auto add = matrix.getDefiningOp<OuterAddOp>()) {
    segment.adds.push_back(add);
    matrix = add.getState();
  }
  segment.start = matrix;
  return segment;
}

StepAnalysis::StepAnalysis(ScanOp scan, const ScanRequest &request) : scan(scan) {
  scan.getBody().walk([&](ReadOp op) { allReads.push_back(op); });
  findActive(request);
  findRead();
  findPairings();
  bool asked = llvm::any_of(request.sequences, [](Type t) { return bool(t); }) ||
               llvm::any_of(request.parameters, [](Type t) { return bool(t); }) ||
               llvm::is_contained(request.initialStates, true);
  bool given = llvm::any_of(request.outputCotangents, [](Value v) { return bool(v); }) ||
               llvm::any_of(request.stateCotangents, [](Value v) { return bool(v); });
  zero = !asked || !given;
}

/// Adds to `set` all values computed from it, in this step or, through states, in a later one.
static void closeForward(ScanOp scan, llvm::DenseSet<Value> &set,
                         llvm::function_ref<bool(Operation *)> passes) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : scan.getStep().without_terminator())
      if (op.getNumResults() == 1 && !set.contains(op.getResult(0)) && passes(&op) &&
          isFloating(op.getResult(0)) &&
          llvm::any_of(op.getOperands(), [&](Value v) { return set.contains(v); }))
        changed |= set.insert(op.getResult(0)).second;
    for (auto [arg, next] : llvm::zip(scan.getStateArgs(), scan.getYield().getStates()))
      if (set.contains(next))
        changed |= set.insert(arg).second;
  }
}

void StepAnalysis::findActive(const ScanRequest &request) {
  for (auto [arg, type] : llvm::zip(scan.getSequenceArgs(), request.sequences))
    if (type)
      active.insert(arg);
  for (auto [arg, type] : llvm::zip(scan.getParameterArgs(), request.parameters))
    if (type)
      active.insert(arg);
  for (auto [arg, wanted] : llvm::zip(scan.getStateArgs(), request.initialStates))
    if (wanted)
      active.insert(arg);
  closeForward(scan, active, [](Operation *op) { return !isPiecewiseConstant(op); });
}

void StepAnalysis::findRead() {
  for (ReadOp op : allReads)
    read.insert(op.getResult());
  closeForward(scan, read, [](Operation *op) { return !isa<DecayOp, OuterAddOp>(op); });
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), scan.getYield().getStates()))
    readsCarried |= !isMatrix(arg) && dependsOnReads(next);
  for (Operation &op : scan.getStep().without_terminator())
    if (isCore(&op))
      readsFed |= llvm::any_of(op.getOperands(),
                               [&](Value v) { return !isMatrix(v) && dependsOnReads(v); });
}

void StepAnalysis::findPairings() {
  bool byAxis[3] = {};
  scan.getBody().walk(
      [&](DecayOp op) { byAxis[unsigned(op.getAxis())] |= isActive(op.getGate()); });
  pairing[1] = byAxis[unsigned(Axis::value)];
  // For a gate per head, the sum over either axis.
  pairing[0] = byAxis[unsigned(Axis::key)] || (byAxis[unsigned(Axis::head)] && !pairing[1]);
}

/// Whether at most one op updates the matrix or passes it on.
static bool hasOneSuccessor(Value matrix) {
  return llvm::count_if(matrix.getUses(),
                        [](OpOperand &use) { return !isa<ReadOp>(use.getOwner()); }) <= 1;
}

LogicalResult StepAnalysis::check() {
  if (!scan.getSavedStates().empty() ||
      llvm::any_of(scan.getSaves(), [](Value save) { return !save.use_empty(); }))
    return scan.getSaveEvery() == 1
               ? scan.emitError("saves its state at every row, because a gate or a read's vector "
                                "depends on what was read of a state, and such a scan has no "
                                "second derivative")
               : scan.emitError("saves states or reads saved ones, and such a scan has no "
                                "derivative; derive the first derivative with "
                                "gate-gradients=suffix");
  unsigned firstState = scan.getFirstStateArg();
  for (Operation &op : scan.getStep().without_terminator()) {
    if (op.getNumRegions())
      return op.emitOpError("must become selects before a derivative; run --canonicalize first");
    bool concerns = llvm::any_of(op.getOperands(), [&](Value v) { return isActive(v); });
    if (!concerns)
      continue;
    if (op.getNumResults() != 1)
      return op.emitError() << "'" << op.getName() << "' has no derivative rule";
    Value result = op.getResult(0);
    if (!isCore(&op)) {
      if (isMatrix(result) || llvm::any_of(op.getOperands(), isMatrix))
        return op.emitError() << "'" << op.getName()
                              << (isa<CheckpointOp>(op)
                                      ? "' has no derivative rule; derive the first derivative "
                                        "with gate-gradients=suffix"
                                      : "' on a K×V state has no derivative rule; use "
                                        "'ejk.decay', 'ejk.outer_add' and 'ejk.read'");
      if (!isFloating(result) && !isPiecewiseConstant(&op))
        return op.emitError() << "'" << op.getName() << "' makes " << result.getType()
                              << " of a value that a gradient is asked for; integers have no "
                                 "derivative: leave out of 'wrt' the inputs that reach it";
      continue;
    }
    if (isMatrix(result) && !hasOneSuccessor(result))
      return op.emitError("makes a state that several ops change or carry on; a derivative "
                          "needs each state to have one successor");
  }
  for (Value arg : scan.getStateArgs())
    if (isMatrix(arg) && isActive(arg) && !hasOneSuccessor(arg))
      return scan.emitError() << "state " << cast<BlockArgument>(arg).getArgNumber() - firstState
                              << " is changed or carried on by several ops; a derivative needs "
                                 "each state to have one successor";
  return success();
}

bool StepAnalysis::endsForward(Value arg) const {
  if (readsCarried)
    return false;
  SmallVector<Value> worklist = {arg};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto yield = dyn_cast<YieldOp>(user)) {
        if (readsFed || use.getOperandNumber() < yield.getStates().size())
          return false;
        continue;
      }
      if (isa<DecayOp, OuterAddOp>(user))
        return false;
      if (!isa<ReadOp>(user))
        worklist.push_back(user->getResult(0));
    }
  }
  return true;
}
