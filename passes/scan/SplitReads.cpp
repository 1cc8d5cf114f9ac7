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
      return {};
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
};
} // namespace
