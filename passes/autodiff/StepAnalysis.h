//===- StepAnalysis.h - what of a step a derivative concerns ------*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_STEPANALYSIS_H
#define EJK_PASSES_AUTODIFF_STEPANALYSIS_H

#include "dialect/ejk/Ejk.h"
#include "passes/autodiff/DeriveScan.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// What a state is within its step since it last decayed, or since the step
/// began: what it was then, and what was added.
struct Segment {
  mlir::Value start;
  llvm::SmallVector<OuterAddOp> adds;

  static Segment of(mlir::Value matrix);
};

class StepAnalysis {
public:
  StepAnalysis(ScanOp scan, const ScanRequest &request);

  /// Whether no gradient is asked for, or all are zero.
  bool isZero() const { return zero; }
  /// That every op on the way has a derivative here; an error at the first that
  /// has none.
  mlir::LogicalResult check();

  /// Ops on the K×V states.
  static bool isCore(mlir::Operation *op) { return mlir::isa<DecayOp, OuterAddOp, ReadOp>(op); }
  llvm::ArrayRef<ReadOp> reads() const { return allReads; }

  /// Whether the value depends on what a gradient is asked for.
  bool isActive(mlir::Value value) const { return active.contains(value); }
  bool isMatrixActive(mlir::Value matrix) const { return active.contains(matrix); }
  /// Whether a state that is a number or a vector takes up what is read: the
  /// reads' cotangents then depend on later steps.
  bool carriesReads() const { return readsCarried; }
  /// Whether what is read feeds what the step adds, a gate or another read: the reads'
  /// cotangents then depend on the states' adjoints.
  bool feedsReads() const { return readsFed; }
  /// Whether the value depends on what is read, now or in an earlier step, and on what a
  /// gradient is asked for.
  bool dependsOnReads(mlir::Value value) const { return read.contains(value) && isActive(value); }
  /// Whether Σ A ⊙ S is needed per channel of `axis`.
  bool needsPairing(Axis axis) const { return pairing[axis == Axis::value]; }
  /// Whether an argument's cotangent is known in the forward pass: it comes from
  /// reads' vectors alone, or from outputs where those have not been seen to before.
  bool endsForward(mlir::Value arg) const;

private:
  void findActive(const ScanRequest &request);
  void findRead();
  void findPairings();

  ScanOp scan;
  llvm::SmallVector<ReadOp> allReads;
  llvm::DenseSet<mlir::Value> active;
  /// Values that depend on what is read, now or in an earlier step.
  llvm::DenseSet<mlir::Value> read;
  bool zero = false, readsCarried = false, readsFed = false, pairing[2] = {false, false};
};

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_STEPANALYSIS_H
