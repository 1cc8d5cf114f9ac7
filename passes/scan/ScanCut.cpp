//===- ScanCut.cpp - cut a scan into two -----------------------------------===//
#include "passes/scan/ScanCut.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

ScanCut::ScanCut(ScanOp scan, ArrayRef<Value> seeds, llvm::function_ref<bool(Value)> crosses)
    : scan(scan) {
  late.insert_range(seeds);
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : scan.getStep().without_terminator())
      if (llvm::any_of(op.getOperands(), [&](Value v) { return late.contains(v); }))
        changed |= late.insert(op.getResult(0)).second;
    for (auto [arg, next] : llvm::zip(scan.getStateArgs(), scan.getYield().getStates()))
      if (late.contains(next))
        changed |= late.insert(arg).second;
  }
  for (Operation &op : scan.getStep().without_terminator())
    if (!late.contains(op.getResult(0)) && crosses(op.getResult(0)))
      crossing.insert(op.getResult(0));
  for (Value arg : scan.getStateArgs())
    if (!late.contains(arg) && !isMatrix(arg))
      crossing.insert(arg);
}

void ScanCut::findNeeded(ArrayRef<Value> given) {
  SmallVector<Value> worklist;
  YieldOp yield = scan.getYield();
  for (Value output : yield.getOutputs())
    if (isLate(output) && !llvm::is_contained(given, output))
      worklist.push_back(output);
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    if (isLate(arg))
      worklist.append({arg, next});
  for (auto [save, value] : llvm::zip(scan.getSaves(), yield.getSaves()))
    if (isLate(value) && !save.use_empty())
      worklist.push_back(value);
  unsigned firstState = scan.getFirstStateArg();
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (llvm::is_contained(given, value) || !needed.insert(value).second)
      continue;
    if (crossing.contains(value)) {
      taken.push_back(value);
      continue;
    }
    if (Operation *def = value.getDefiningOp())
      llvm::append_range(worklist, def->getOperands());
    else if (unsigned number = cast<BlockArgument>(value).getArgNumber(); number >= firstState)
      worklist.push_back(yield.getStates()[number - firstState]);
  }
}

void ScanCut::replaceResult(OpBuilder &b, Value result, Value made) {
  if (made.getType() != result.getType() && !result.use_empty())
    made = tensor::CastOp::create(b, scan.getLoc(), result.getType(), made);
  result.replaceAllUsesWith(made);
}

SmallVector<ScanOp> ScanCut::apply() {
  return apply({}, {}, [](OpBuilder &, ValueRange) { return SmallVector<Value>(); });
}

SmallVector<ScanOp> ScanCut::apply(ArrayRef<Value> wanted, ArrayRef<Value> given, Between between) {
  OpBuilder outer(scan);
  YieldOp yield = scan.getYield();
  int64_t every = scan.getSaveEvery().value_or(0);
  auto operands = [&](ScanBuilder &sb, IRMapping &map,
                      llvm::function_ref<bool(Operation *)> isComputed) {
    // A scan that takes what another one saves, or the terms of a sum, has the chunks of that.
    auto isUsed = [&](Operation *op) { return isa<YieldOp>(op) || isComputed(op); };
    for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
      if (llvm::is_contained(wanted, arg) || llvm::any_of(arg.getUsers(), isUsed))
        map.map(arg, sb.addSequence(tensor));
    for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
      map.map(arg, sb.addParameter(tensor, arg.getType()));
    for (auto [arg, tensor] : llvm::zip(scan.getSavedArgs(), scan.getSavedStates()))
      if (llvm::any_of(arg.getUsers(), isComputed))
        map.map(arg, sb.addSavedState(tensor, every));
  };
  // The saves of one of the two scans.
  using Saves = SmallVector<std::pair<Value, unsigned>>;
  auto keepSaves = [&](ScanBuilder &sb, IRMapping &map, bool late) {
    Saves kept;
    for (auto [save, value] : llvm::zip(scan.getSaves(), yield.getSaves()))
      if (isLate(value) == late && !save.use_empty())
        kept.push_back(
            {save, sb.addSave(map.lookup(value), every, cast<RankedTensorType>(save.getType()))});
    return kept;
  };
  auto replaceSaves = [&](ScanBuilder &sb, const Saves &kept) {
    for (auto [save, i] : kept)
      replaceResult(outer, save, sb.save(i));
  };
  auto state = [&](ScanBuilder &sb, IRMapping &map, unsigned i) {
    auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
    map.map(scan.getStateArgs()[i], sb.addState(type, scan.getInitialState(i)));
  };

  // The first scan: everything that is not late.
  findNeeded(given);
  ScanBuilder first(outer, scan);
  IRMapping early;
  operands(first, early, [&](Operation *op) {
    return op->getNumResults() == 1 && !isLate(op->getResult(0));
  });
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (!isLate(arg))
      state(first, early, i);
  for (Operation &op : scan.getStep().without_terminator())
    if (!isLate(op.getResult(0)))
      first.b.clone(op, early);
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    if (!isLate(arg))
      first.setNext(early.lookup(arg), early.lookup(next));
  SmallVector<std::pair<Value, unsigned>> outputs;
  for (auto [output, value] : llvm::zip(scan.getOutputs(), yield.getOutputs()))
    if (!isLate(value))
      outputs.push_back({output, first.addOutput(early.lookup(value))});
  SmallVector<unsigned> wantedOutputs, takenOutputs;
  for (Value value : wanted)
    wantedOutputs.push_back(first.addOutput(early.lookup(value)));
  for (Value value : taken)
    takenOutputs.push_back(first.addOutput(early.lookup(value)));
  DictionaryAttr attributes = scan->getDiscardableAttrDictionary();
  Saves earlySaves = keepSaves(first, early, /*late=*/false);
  ScanOp firstScan = first.finish();
  firstScan->setDiscardableAttrs(attributes);
  replaceSaves(first, earlySaves);
  for (auto [output, i] : outputs)
    replaceResult(outer, output, first.output(i));
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (!isLate(arg))
      replaceResult(outer, scan.getFinalStates()[i], first.finalState(early.lookup(arg)));

  SmallVector<Value> tensors;
  for (unsigned i : wantedOutputs)
    tensors.push_back(first.output(i));
  tensors = between(outer, tensors);
  for (auto [output, value] : llvm::zip(scan.getOutputs(), yield.getOutputs()))
    for (auto [made, tensor] : llvm::zip(given, tensors))
      if (made == value && tensor.getType() == output.getType())
        output.replaceAllUsesWith(tensor);
  auto isUsed = [](Value v) { return !v.use_empty(); };
  if (llvm::none_of(scan->getResults(), isUsed)) {
    scan.erase();
    return {firstScan};
  }

  // The second scan: late values with uses, computed from outputs of the first and from `given`.
  ScanBuilder second(outer, scan);
  IRMapping map;
  operands(second, map, [&](Operation *op) {
    return op->getNumResults() == 1 && needed.contains(op->getResult(0));
  });
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (needed.contains(arg) && !crossing.contains(arg))
      state(second, map, i);
  for (auto [value, output] : llvm::zip(taken, takenOutputs))
    map.map(value, second.addSequence(first.output(output)));
  for (auto [value, tensor] : llvm::zip(given, tensors))
    map.map(value, second.addSequence(tensor));
  for (Operation &op : scan.getStep().without_terminator())
    if (Value result = op.getResult(0); needed.contains(result) && !map.contains(result))
      second.b.clone(op, map);
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    if (needed.contains(arg) && !crossing.contains(arg))
      second.setNext(map.lookup(arg), map.lookup(next));
  outputs.clear();
  for (auto [output, value] : llvm::zip(scan.getOutputs(), yield.getOutputs()))
    if (isLate(value) && !output.use_empty())
      outputs.push_back({output, second.addOutput(map.lookup(value))});
  Saves lateSaves = keepSaves(second, map, /*late=*/true);
  ScanOp secondScan = second.finish();
  secondScan->setDiscardableAttrs(attributes);
  replaceSaves(second, lateSaves);
  for (auto [output, i] : outputs)
    replaceResult(outer, output, second.output(i));
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (isLate(arg))
      replaceResult(outer, scan.getFinalStates()[i], second.finalState(map.lookup(arg)));
  scan.erase();
  return {firstScan, secondScan};
}

bool ejk::isReadOfState(Value value) {
  return isa_and_nonnull<ReadOp, CheckpointOp>(value.getDefiningOp());
}

void ejk::cutScans(Operation *root, llvm::function_ref<SmallVector<ScanOp>(ScanOp)> cut) {
  SmallVector<ScanOp> worklist;
  root->walk([&](ScanOp scan) {
    if (!hasBranches(scan) && scan.getQueries().empty() && !scan.getTrailing())
      worklist.push_back(scan);
  });
  // The last scan is at the front, and pop_back takes the first one.
  std::reverse(worklist.begin(), worklist.end());
  while (!worklist.empty()) {
    SmallVector<ScanOp> made = cut(worklist.pop_back_val());
    worklist.append(made.rbegin(), made.rend());
  }
}
