//===- SplitRotations.cpp - rotations of reads, between scans --------------===//
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITROTATIONS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct SplitRotationsPass : ejk::impl::SplitRotationsBase<SplitRotationsPass> {
  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) { return split(scan); });
  }

  SmallVector<ScanOp> split(ScanOp scan) {
    SmallVector<Value> rotated;
    llvm::DenseSet<Value> vectors;
    for (RotateHalfOp op : scan.getStep().getOps<RotateHalfOp>())
      if (dependsOnThreads(scan, op.getVector())) {
        rotated.push_back(op.getResult());
        vectors.insert(op.getVector());
      }
    if (rotated.empty())
      return {};
    ScanCut cut(scan, rotated, [&](Value v) {
      return vectors.contains(v) || isa_and_nonnull<ReadOp>(v.getDefiningOp());
    });
    // A rotation that depends on another one is split off the second scan later.
    unsigned taken = llvm::count_if(vectors, [&](Value v) { return !cut.isLate(v); });
    if (!taken) {
      scan.emitRemark("not split: every rotation depends on one of an earlier step");
      return {};
    }
    numSplit += taken;
    return cut.apply();
  }
};
} // namespace
