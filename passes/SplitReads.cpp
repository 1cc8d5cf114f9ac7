//===- SplitReads.cpp - reads along different axes, scans of their own ----===//
#include "mlir/IR/PatternMatch.h"
#include "passes/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITREADS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// Which axes a value's computation within one step reads the state along.
struct Reads {
  bool key = false, value = false;
  void operator|=(Reads other) {
    key |= other.key;
    value |= other.value;
  }
  bool both() const { return key && value; }
};

Reads readsOf(Value root) {
  Reads reads;
  SmallVector<Value> worklist = {root};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (auto read = dyn_cast<ReadOp>(op))
      (read.getAxis() == Axis::key ? reads.key : reads.value) = true;
    llvm::append_range(worklist, op->getOperands());
  }
  return reads;
}

struct SplitReadsPass : ejk::impl::SplitReadsBase<SplitReadsPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ScanOp scan : scans)
      split(scan);
  }

  void split(ScanOp scan) {
    YieldOp yield = scan.getYield();
    Reads all, ofStates;
    for (Value state : yield.getStates())
      ofStates |= readsOf(state);
    all |= ofStates;
    llvm::BitVector readsValue(yield.getOutputs().size());
    bool mixedOutput = false;
    for (auto [i, output] : llvm::enumerate(yield.getOutputs())) {
      Reads reads = readsOf(output);
      all |= reads;
      mixedOutput |= reads.both();
      readsValue[i] = reads.value;
    }
    if (!all.both())
      return;
    // A part that walks the state needs the state's own reads too.
    if (mixedOutput || ofStates.key || ofStates.value) {
      scan.emitRemark("not split: one value depends on reads along both axes");
      return;
    }
    OpBuilder b(scan);
    auto keep = [&](ScanOp part, bool wanted) {
      YieldOp partYield = part.getYield();
      SmallVector<Value> outputs;
      for (auto [i, output] : llvm::enumerate(partYield.getOutputs()))
        if (readsValue[i] == wanted)
          outputs.push_back(output);
      OpBuilder yb(partYield);
      SmallVector<Type> outputTypes;
      for (auto [i, output] : llvm::enumerate(part.getOutputs()))
        if (readsValue[i] == wanted)
          outputTypes.push_back(output.getType());
      SmallVector<Value> initials;
      for (unsigned i = 0, e = part.getNumStates(); i < e; ++i)
        initials.push_back(part.getInitialState(i));
      auto result = ScanOp::create(
          b, part.getLoc(), outputTypes, part.getFinalStates().getTypes(), part.getSequences(),
          part.getParameters(), part.getParameterArgs().getTypes(), initials, part.getCuSeqlens(),
          part.getReverse());
      result->setDiscardableAttrs(part->getDiscardableAttrDictionary());
      YieldOp::create(yb, partYield.getLoc(), SmallVector<Value>(partYield.getStates()), outputs);
      partYield.erase();
      // The new scan brought an empty block of the right arguments; the old
      // body takes its place.
      result.getBody().takeBody(part.getBody());
      return result;
    };
    auto second = cast<ScanOp>(b.clone(*scan));
    ScanOp valuePart = keep(second, true);
    second.erase();
    ScanOp keyPart = keep(scan, false);
    unsigned nextKey = 0, nextValue = 0;
    for (auto [i, output] : llvm::enumerate(scan.getOutputs()))
      output.replaceAllUsesWith(readsValue[i] ? valuePart.getOutputs()[nextValue++]
                                              : keyPart.getOutputs()[nextKey++]);
    for (auto [old, state] : llvm::zip(scan.getFinalStates(), keyPart.getFinalStates()))
      old.replaceAllUsesWith(state);
    scan.erase();
    ++numSplit;
  }
};
} // namespace
