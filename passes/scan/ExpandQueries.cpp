//===- ExpandQueries.cpp - a state for each query head ---------------------===//
#include "passes/scan/ExpandQueries.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;

SmallVector<ScanOp> ejk::scansWithQueries(Operation *root) {
  SmallVector<ScanOp> scans;
  root->walk([&](ScanOp scan) {
    if (!scan.getQueries().empty())
      scans.push_back(scan);
  });
  return scans;
}

namespace {
/// One of the scans that a scan with queries becomes: over query heads, or over the heads that
/// these share.
class Part {
public:
  Part(ScanOp scan, bool ofQueries) : scan(scan), ofQueries(ofQueries), b(scan) {
    llvm::DenseSet<Value> queryValues = scan.findQueryValues();
    for (auto [output, value] : llvm::zip(scan.getOutputs(), scan.getYield().getOutputs()))
      if (queryValues.contains(value) == ofQueries)
        outputs.push_back({output, value});
    for (Operation &op : scan.getStep().without_terminator())
      if (ofQueries || !queryValues.contains(op.getResult(0)))
        ops.push_back(&op);
  }

  bool isUsed() {
    return llvm::any_of(outputs, [](auto &output) { return !output.first.use_empty(); }) ||
           llvm::any_of(saves(), [](Value save) { return !save.use_empty(); });
  }

  ScanOp make() {
    Location loc = scan.getLoc();
    SmallVector<Value> sequences, initials;
    if (ofQueries)
      llvm::append_range(sequences, scan.getQueries());
    llvm::append_range(sequences, scan.getSequences());
    SmallVector<Type> outputTypes, stateTypes, parameterTypes(scan.getParameterArgs().getTypes());
    for (auto [output, value] : outputs)
      outputTypes.push_back(output.getType());
    for (auto [i, state] : llvm::enumerate(scan.getFinalStates())) {
      stateTypes.push_back(stateType(state));
      Value initial = scan.getInitialState(i);
      if (initial && ofQueries)
        initial = RepeatHeadsOp::create(b, loc, stateTypes.back(), initial, sequences.front(),
                                        /*dim=*/2, /*first_only=*/false);
      initials.push_back(initial);
    }
    auto made = ScanOp::create(b, loc, outputTypes, stateTypes, sequences, scan.getParameters(),
                               parameterTypes, initials, scan.getCuSeqlens(), scan.getReverse(),
                               saves().empty() ? 0 : int64_t(*scan.getSaveEvery()),
                               /*savedStates=*/{}, saves().getTypes(), scan.getSegmentsAttr());
    made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
    fillStep(made);
    for (auto [i, output] : llvm::enumerate(outputs))
      output.first.replaceAllUsesWith(made.getOutputs()[i]);
    for (auto [old, save] : llvm::zip(saves(), made.getSaves()))
      old.replaceAllUsesWith(save);
    return made;
  }

  /// The final states are those of the first query head of each group.
  void replaceStates(ScanOp made) {
    b.setInsertionPointAfter(made);
    for (auto [old, state] : llvm::zip(scan.getFinalStates(), made.getFinalStates()))
      if (!old.use_empty())
        old.replaceAllUsesWith(FirstHeadsOp::create(b, scan.getLoc(), old.getType(), state,
                                                    scan.getSequences().front(), /*dim=*/2));
  }

private:
  /// Saved states belong to the heads that queries share.
  ValueRange saves() { return ofQueries ? ValueRange() : ValueRange(scan.getSaves()); }

  /// [N,Hq,…] for [N,H,…] over query heads.
  RankedTensorType stateType(Value state) {
    auto type = cast<RankedTensorType>(state.getType());
    if (!ofQueries)
      return type;
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = cast<RankedTensorType>(scan.getQueries().front().getType()).getDimSize(2);
    return type.clone(shape);
  }

  void fillStep(ScanOp made) {
    IRMapping map;
    ValueRange rows = made.getSequenceArgs();
    if (ofQueries) {
      unsigned queries = scan.getQueries().size();
      map.map(scan.getQueryArgs(), rows.take_front(queries));
      rows = rows.drop_front(queries);
    }
    map.map(scan.getSequenceArgs(), rows);
    map.map(scan.getParameterArgs(), made.getParameterArgs());
    map.map(scan.getStateArgs(), made.getStateArgs());
    OpBuilder step = OpBuilder::atBlockEnd(&made.getStep());
    for (Operation *op : ops)
      step.clone(*op, map);
    auto mapped = [&](Value value) { return map.lookup(value); };
    SmallVector<Value> yielded;
    for (auto [output, value] : outputs)
      yielded.push_back(map.lookup(value));
    YieldOp::create(step, scan.getYield().getLoc(),
                    llvm::map_to_vector(scan.getYield().getStates(), mapped), yielded,
                    ofQueries ? SmallVector<Value>()
                              : llvm::map_to_vector(scan.getYield().getSaves(), mapped));
  }

  ScanOp scan;
  bool ofQueries;
  OpBuilder b;
  /// The outputs of this part, with their values in the step, and the ops that it has.
  SmallVector<std::pair<Value, Value>> outputs;
  SmallVector<Operation *> ops;
};
} // namespace

SmallVector<ScanOp> ejk::expandQueries(ScanOp scan) {
  SmallVector<ScanOp> made;
  if (Part shared(scan, /*ofQueries=*/false); shared.isUsed())
    made.push_back(shared.make());
  Part each(scan, /*ofQueries=*/true);
  made.push_back(each.make());
  each.replaceStates(made.back());
  scan.erase();
  return made;
}
