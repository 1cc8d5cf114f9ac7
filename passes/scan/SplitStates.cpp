//===- SplitStates.cpp - a scan for each size of K×V state -----------------===//
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ExpandQueries.h"
#include "passes/scan/ScanCut.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_SPLITSTATES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct SplitStatesPass : ejk::impl::SplitStatesBase<SplitStatesPass> {
  void runOnOperation() override {
    // No kernel has states of two sizes.
    for (ScanOp scan : scansWithQueries(getOperation()))
      if (sizesOf(scan).size() > 1)
        expandQueries(scan);
    cutScans(getOperation(), [this](ScanOp scan) { return split(scan); });
  }

  /// What a later scan takes as a sequence: reads, and of one with a single channel the number.
  static bool isRead(Value value) {
    return isReadOfState(value) || isOnlyChannel(value.getDefiningOp());
  }

  static llvm::SetVector<Type> sizesOf(ScanOp scan) {
    llvm::SetVector<Type> found;
    for (Value state : scan.getStateArgs())
      if (isMatrix(state))
        found.insert(state.getType());
    return found;
  }

  SmallVector<ScanOp> split(ScanOp scan) {
    llvm::SetVector<Type> found = sizesOf(scan);
    if (found.size() < 2)
      return {};
    // Smallest states first, so that the fewest bytes pass between the scans.
    SmallVector<Type> sizes = found.takeVector();
    llvm::stable_sort(sizes, [](Type a, Type b) {
      return cast<VectorType>(a).getNumElements() < cast<VectorType>(b).getNumElements();
    });
    for (Type size : sizes) {
      ScanCut cut(scan, laterThan(scan, size), isRead);
      if (reaches(scan, cut, size))
        continue;
      ++numSplit;
      return cut.apply();
    }
    scan.emitRemark("not split: K×V states of different sizes depend on each other's reads");
    return {};
  }

  /// Whether the cut's second scan has K×V values of `size`.
  static bool reaches(ScanOp scan, const ScanCut &cut, Type size) {
    auto isLate = [&](Value value) { return value.getType() == size && cut.isLate(value); };
    return llvm::any_of(scan.getStateArgs(), isLate) ||
           llvm::any_of(scan.getStep().without_terminator(),
                        [&](Operation &op) { return isLate(op.getResult(0)); });
  }

  /// The values that the scan of the states of `size` leaves to a later one: states of other sizes,
  /// and scalar or vector states and outputs that neither need nor feed those of `size`.
  static SmallVector<Value> laterThan(ScanOp scan, Type size) {
    SmallVector<Value> ownStates, later;
    for (Value state : scan.getStateArgs())
      if (isMatrix(state))
        (state.getType() == size ? ownStates : later).push_back(state);
    ScanCut own(scan, ownStates, isRead);
    auto addUnrelated = [&](Value value) {
      if (!own.isLate(value) && !reaches(scan, ScanCut(scan, value, isRead), size))
        later.push_back(value);
    };
    for (Value state : scan.getStateArgs())
      if (!isMatrix(state))
        addUnrelated(state);
    for (Value output : scan.getYield().getOutputs())
      if (output.getDefiningOp())
        addUnrelated(output);
    return later;
  }
};
} // namespace
