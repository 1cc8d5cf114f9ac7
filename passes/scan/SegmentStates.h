//===- SegmentStates.h - what segments' starts need ---------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SEGMENTSTATES_H
#define EJK_PASSES_SCAN_SEGMENTSTATES_H

#include "passes/scan/Corrections.h"
#include "passes/scan/DividedScans.h"

namespace ejk {
/// What a segment's start needs of one state.
struct SplitState {
  enum class Kind {
    linear,      // the state that the segment before ends with
    corrected,   // the same; the step adds what it reads of the state
    known,       // the same; it is a state of an earlier scan
    accumulated, // nothing: it is unused in the step, and the segments' sums are added up
    restarted    // nothing: it starts anew at each saved state
  } kind;
  /// Of linear ones: the log gates along each axis.
  llvm::SmallVector<mlir::Value> gates[3];
  KnownState known;

  /// Whether segments are scanned from zero for it.
  bool needsTotals() const { return kind == Kind::linear || kind == Kind::corrected; }
};

/// Finds that for the states of a scan.
class SegmentStates {
public:
  /// States of `before`, which `divided` divides or nothing where it is null, are known. With
  /// `remarks`, the op in the way says why a scan cannot be split.
  SegmentStates(ScanOp scan, SegmentsAttr divided, llvm::ArrayRef<DividedScan> before, bool remarks)
      : scan(scan), divided(divided), before(before), remarks(remarks) {}

  llvm::LogicalResult analyze();
  /// The next values of the states that a scan of each segment starts from zero.
  llvm::SmallVector<mlir::Value> nextsOfTotals();
  /// Whether no segment's start depends on the one before, but where it is known.
  bool areApart() const {
    return llvm::none_of(all, [](const SplitState &state) { return state.needsTotals(); });
  }
  llvm::ArrayRef<SplitState> states() const { return all; }
  Corrections corrections;

private:
  llvm::LogicalResult decline(mlir::Operation *op, const llvm::Twine &why) {
    if (remarks)
      op->emitRemark("not split over time: ") << why;
    return llvm::failure();
  }
  llvm::FailureOr<SplitState> followMatrix(mlir::Value arg, mlir::Value next);
  llvm::LogicalResult checkCorrections(mlir::Value arg, mlir::Value next);
  llvm::FailureOr<SplitState> followSum(unsigned number);
  bool isStateful(mlir::Value value) const { return stateful.contains(value); }

  ScanOp scan;
  SegmentsAttr divided;
  llvm::ArrayRef<DividedScan> before;
  bool remarks;
  /// The op that has no corrections' parts, and why.
  mlir::Operation *uncorrected = nullptr;
  std::string whyUncorrected;
  llvm::SmallVector<SplitState> all;
  llvm::DenseSet<mlir::Value> stateful;
};
} // namespace ejk

#endif // EJK_PASSES_SCAN_SEGMENTSTATES_H
