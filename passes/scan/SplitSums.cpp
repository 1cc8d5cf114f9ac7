//===- SplitSums.cpp - sums over channels, between scans ------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/TensorSums.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITSUMS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct SplitSumsPass : ejk::impl::SplitSumsBase<SplitSumsPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ScanOp scan : scans)
      split(scan);
  }

  void split(ScanOp scan) {
    SmallVector<Value> sums;
    scan.getBody().walk([&](SumOp op) {
      if (!isSumAlongReads(scan, op))
        sums.push_back(op.getResult());
    });
    if (sums.empty())
      return;
    ScanCut cut(scan, sums, [](Value v) { return bool(v.getDefiningOp<ReadOp>()); });
    // A sum of what depends on another sum waits for the second scan's turn.
    SmallVector<Value> given, wanted;
    for (Value sum : sums) {
      Value vector = sum.getDefiningOp<SumOp>().getVector();
      if (!cut.isLate(vector)) {
        given.push_back(sum);
        wanted.push_back(vector);
      }
    }
    if (given.empty()) {
      scan.emitRemark("not split: every sum depends on one of an earlier step");
      return;
    }
    Operation *after = scan->getNextNode();
    Location loc = scan.getLoc();
    cut.apply(wanted, given, [&](OpBuilder &b, ValueRange tensors) {
      return llvm::map_to_vector(tensors, [&](Value v) { return sumOver(b, loc, v, 3); });
    });
    numSplit += given.size();
    if (auto second = dyn_cast<ScanOp>(after->getPrevNode()))
      split(second);
  }
};
} // namespace
