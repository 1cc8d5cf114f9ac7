//===- SideReads.cpp - reads that only a step's outputs take --------------===//
#include "passes/scan/SideReads.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

/// All values of the step that depend on a state.
static llvm::DenseSet<Value> findStateful(ScanOp scan) {
  llvm::DenseSet<Value> stateful;
  for (Value state : scan.getStateArgs())
    stateful.insert(state);
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return stateful.contains(v); }))
      stateful.insert(op.getResult(0));
  return stateful;
}

/// Whether each matrix of the step is a state after some decays and outer products, and is read
/// by vectors that do not depend on a state.
static bool isLinear(ScanOp scan, const llvm::DenseSet<Value> &stateful) {
  auto isEarly = [&](Value vector) { return !stateful.contains(vector); };
  llvm::DenseSet<Value> chains;
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), scan.getYield().getStates())) {
    if (!isMatrix(arg))
      continue;
    for (Value value = next; value != arg; value = value.getDefiningOp()->getOperand(0)) {
      Operation *op = value.getDefiningOp();
      if (!isa_and_nonnull<DecayOp, OuterAddOp>(op) ||
          !llvm::all_of(op->getOperands().drop_front(), isEarly))
        return false;
      chains.insert(value);
    }
    chains.insert(arg);
  }
  return llvm::all_of(scan.getStep().without_terminator(), [&](Operation &op) {
    if (auto read = dyn_cast<ReadOp>(op))
      return chains.contains(read.getState()) && isEarly(read.getVector());
    if (auto checkpoint = dyn_cast<CheckpointOp>(op))
      return isa<BlockArgument>(checkpoint.getState());
    return !isMatrix(op.getResult(0)) || chains.contains(op.getResult(0));
  });
}

/// What depends on the reads along `axis`; null if that is anything but elementwise values that
/// outputs take.
static std::optional<llvm::DenseSet<Value>> findOutputsOnly(ScanOp scan, Axis axis,
                                                            const llvm::DenseSet<Value> &stateful) {
  llvm::DenseSet<Value> values;
  for (Operation &op : scan.getStep().without_terminator()) {
    auto isOfSide = [&](Value v) { return values.contains(v); };
    auto read = dyn_cast<ReadOp>(op);
    if (read && read.getAxis() == axis) {
      values.insert(read.getResult());
    } else if (llvm::any_of(op.getOperands(), isOfSide)) {
      if (!OpTrait::hasElementwiseMappableTraits(&op) ||
          !llvm::all_of(op.getOperands(),
                        [&](Value v) { return isOfSide(v) || !stateful.contains(v); }))
        return std::nullopt;
      values.insert(op.getResult(0));
    }
  }
  YieldOp yield = scan.getYield();
  if (llvm::any_of(yield.getStates(), [&](Value v) { return values.contains(v); }))
    return std::nullopt;
  return values;
}

std::optional<SideReads> ejk::findSideReads(ScanOp scan) {
  if (hasBranches(scan) || !scan.getSaves().empty())
    return std::nullopt;
  bool reads[2] = {}, checkpoints[2] = {}, decays[2] = {};
  auto index = [](Axis axis) { return axis == Axis::value; };
  for (Operation &op : scan.getStep().without_terminator()) {
    if (auto read = dyn_cast<ReadOp>(op))
      reads[index(read.getAxis())] = true;
    else if (auto checkpoint = dyn_cast<CheckpointOp>(op))
      checkpoints[index(checkpoint.getAxis())] = true;
    else if (auto decay = dyn_cast<DecayOp>(op))
      decays[index(decay.getAxis())] |= decay.getAxis() != Axis::head;
  }
  if (!reads[0] || !reads[1])
    return std::nullopt;
  for (Value state : scan.getStateArgs())
    if (isMatrix(state) &&
        llvm::is_contained(cast<VectorType>(state.getType()).getShape(), 1))
      return std::nullopt;
  llvm::DenseSet<Value> stateful = findStateful(scan);
  if (!isLinear(scan, stateful))
    return std::nullopt;
  for (Axis axis : {Axis::key, Axis::value}) {
    if (checkpoints[index(axis)] || decays[!index(axis)])
      continue;
    if (auto values = findOutputsOnly(scan, axis, stateful))
      return SideReads{axis, std::move(*values)};
  }
  return std::nullopt;
}
