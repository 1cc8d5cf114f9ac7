//===- SplitReads.cpp - a scan for the reads along each axis ---------------===//
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SideReads.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITREADS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// A read or an outer product that takes what `read` gives along the axis across from that which it lies
/// along: as a key what was read along keys, which lies along values.
struct Turn {
  Operation *user;
  ReadOp read;
};

/// What lies along an axis, of the values that a step computes from its reads.
class Turns {
public:
  explicit Turns(ScanOp scan) {
    for (Operation &op : scan.getStep()) {
      if (auto read = dyn_cast<ReadOp>(op)) {
        take(&op, read.getVector(), read.getAxis());
        made[read.getResult()] = {read, read.getAxis() == Axis::key ? Axis::value : Axis::key};
      } else if (auto add = dyn_cast<OuterAddOp>(op)) {
        take(&op, add.getKey(), Axis::key);
        take(&op, add.getValue(), Axis::value);
      } else if (auto decay = dyn_cast<DecayOp>(op)) {
        if (decay.getAxis() != Axis::head)
          take(&op, decay.getGate(), decay.getAxis());
      } else if (OpTrait::hasElementwiseMappableTraits(&op)) {
        for (Value operand : op.getOperands())
          if (auto known = made.find(operand); known != made.end())
            made[op.getResult(0)] = std::pair(known->second);
      }
    }
  }
  SmallVector<Turn> all;

private:
  void take(Operation *user, Value vector, Axis axis) {
    auto known = made.find(vector);
    if (known != made.end() && known->second.second != axis)
      all.push_back({user, known->second.first});
  }
  llvm::DenseMap<Value, std::pair<ReadOp, Axis>> made;
};

struct SplitReadsPass : ejk::impl::SplitReadsBase<SplitReadsPass> {
  using SplitReadsBase::SplitReadsBase;

  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) { return split(scan); });
  }

  /// Whether the target's kernel makes both kinds of reads.
  bool keeps(ScanOp scan) {
    auto matrix = llvm::find_if(scan.getStateArgs(), isMatrix);
    return matrix != scan.getStateArgs().end() &&
           cast<VectorType>((*matrix).getType()).getNumElements() <= keepUpTo &&
           findSideReads(scan);
  }

  SmallVector<ScanOp> split(ScanOp scan) {
    if (keeps(scan) || largestMatrixState(scan) <= above)
      return {};
    SmallVector<Value> reads[2]; // along key, along value
    scan.getBody().walk(
        [&](ReadOp read) { reads[read.getAxis() == Axis::value].push_back(read.getResult()); });
    scan.getBody().walk([&](CheckpointOp checkpoint) {
      reads[checkpoint.getAxis() == Axis::value].push_back(checkpoint.getResult());
    });
    if (reads[0].empty() || reads[1].empty())
      return turned ? splitTurns(scan) : SmallVector<ScanOp>();
    // The second scan's reads must not feed the first scan's states.
    for (Axis secondAxis : {Axis::key, Axis::value}) {
      auto &second = reads[secondAxis == Axis::value], &first = reads[secondAxis == Axis::key];
      ScanCut cut(scan, second, [&](Value v) { return llvm::is_contained(first, v); });
      if (llvm::any_of(first, [&](Value v) { return cut.isLate(v); }))
        continue;
      ++numSplit;
      return cut.apply();
    }
    if (above < 0)
      scan.emitRemark("not split: reads along each axis depend on those along the other");
    return {};
  }

  /// Cuts the scan before what takes a read as a vector along the other axis.
  SmallVector<ScanOp> splitTurns(ScanOp scan) {
    SmallVector<Value> late;
    Turns turns(scan);
    for (const Turn &turn : turns.all)
      late.push_back(turn.user->getResult(0));
    if (late.empty())
      return {};
    ScanCut cut(scan, late, isReadOfState);
    // Where each of the reads depends on such a vector itself, in an earlier step, no scan comes first.
    if (llvm::all_of(turns.all, [&](Turn turn) { return cut.isLate(turn.read.getResult()); }))
      return {};
    ++numTurned;
    return cut.apply();
  }
};
} // namespace
