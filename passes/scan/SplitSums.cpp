//===- SplitSums.cpp - sums and maxima over channels, between scans -------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/TensorSums.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITSUMS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct SplitSumsPass : ejk::impl::SplitSumsBase<SplitSumsPass> {
  using SplitSumsBase::SplitSumsBase;

  void runOnOperation() override {
    cutScans(getOperation(), [this](ScanOp scan) { return split(scan); });
  }

  /// Whether all vectors of the step have as many channels, those of one channel aside.
  static bool hasOneLength(ScanOp scan) {
    int64_t length = 1;
    for (Operation &op : scan.getStep())
      for (Value value : op.getOperands())
        if (auto type = dyn_cast<VectorType>(value.getType()); type && type.getDimSize(0) > 1) {
          if (length > 1 && type.getDimSize(0) != length)
            return false;
          length = type.getDimSize(0);
        }
    return true;
  }

  SmallVector<ScanOp> split(ScanOp scan) {
    int64_t elements = largestMatrixState(scan);
    if (elements <= above || (matricesOnly && elements == 0 && hasOneLength(scan)))
      return {};
    SmallVector<Value> sums;
    for (Operation &op : scan.getStep())
      // Slices have all of what no state gives.
      if (isReduction(&op) && !isReductionAlongReads(scan, &op) &&
          (above < 0 || dependsOnThreads(scan, op.getOperand(0))))
        sums.push_back(op.getResult(0));
    if (sums.empty())
      return {};
    ScanCut cut(scan, sums, isReadOfState);
    // A sum that depends on another one is split off the second scan later.
    SmallVector<Value> given, wanted;
    for (Value sum : sums) {
      Value vector = sum.getDefiningOp()->getOperand(0);
      if (!cut.isLate(vector)) {
        given.push_back(sum);
        wanted.push_back(vector);
      }
    }
    if (given.empty()) {
      if (above < 0)
        scan.emitRemark("not split: every sum depends on one of an earlier step");
      return {};
    }
    // Without its reads, the first scan may have no axis left that it sums along, and is cut again.
    numSplit += given.size();
    Location loc = scan.getLoc();
    return cut.apply(wanted, given, [&](OpBuilder &b, ValueRange tensors) {
      return llvm::map_to_vector(llvm::zip(given, tensors), [&](auto pair) {
        auto [reduction, tensor] = pair;
        return isa<MaxOp>(reduction.getDefiningOp()) ? maxOver(b, loc, tensor, 3)
                                                     : sumOver(b, loc, tensor, 3);
      });
    });
  }
};
} // namespace
