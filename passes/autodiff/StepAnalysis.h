//===- StepAnalysis.h - which values of a step have derivatives ---*- C++ -*-===//
#ifndef EJK_PASSES_AUTODIFF_STEPANALYSIS_H
#define EJK_PASSES_AUTODIFF_STEPANALYSIS_H

#include "dialect/ejk/Ejk.h"
#include "passes/autodiff/DeriveScan.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// The part of a step since the state's last decay, or since the step began: the state at its
/// start, and the adds.
struct Segment {
  mlir::Value start;
  llvm::SmallVector<OuterAddOp> adds;

  static Segment of(mlir::Value matrix);
};

class StepAnalysis {
public:
  StepAnalysis(ScanOp scan, const ScanRequest &request);

  /// Whether no gradient is requested, or all are zero.
  bool isZero() const { return zero; }
  /// Verifies that every op involved has a derivative; an error at the first that has none.
  mlir::LogicalResult check();

  /// Ops on the K×V states.
  static bool isCore(mlir::Operation *op) { return mlir::isa<DecayOp, OuterAddOp, ReadOp>(op); }
  llvm::ArrayRef<ReadOp> reads() const { return allReads; }

  /// Whether the value depends on an input whose gradient is requested.
  bool isActive(mlir::Value value) const { return active.contains(value); }
  bool isMatrixActive(mlir::Value matrix) const { return active.contains(matrix); }
  /// Whether a scalar or vector state depends on reads. The reads' cotangents then depend on later
  /// steps.
  bool carriesReads() const { return readsCarried; }
  /// Whether reads feed an outer_add, a gate or another read. The reads' cotangents then depend on
  /// the states' adjoints.
  bool feedsReads() const { return readsFed; }
  /// Whether the value depends on reads of this or an earlier step, and on an input whose gradient
  /// is requested.
  bool dependsOnReads(mlir::Value value) const { return read.contains(value) && isActive(value); }
  /// Whether Σ A ⊙ S is needed per channel of `axis`.
  bool needsPairing(Axis axis) const { return pairing[axis == Axis::value]; }
  /// Whether an argument's cotangent is known in the forward pass: it comes only from vectors of
  /// reads, or from outputs that have not been handled before.
  bool endsForward(mlir::Value arg) const;

private:
  void findActive(const ScanRequest &request);
  void findRead();
  void findPairings();

  ScanOp scan;
  llvm::SmallVector<ReadOp> allReads;
  llvm::DenseSet<mlir::Value> active;
  /// Values that depend on reads of this or an earlier step.
  llvm::DenseSet<mlir::Value> read;
  bool zero = false, readsCarried = false, readsFed = false, pairing[2] = {false, false};
};

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_STEPANALYSIS_H
