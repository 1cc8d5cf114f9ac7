//===- StepSizes.h - tiles and stages of a step-by-step kernel -----*- C++ -*-===//
#ifndef EJK_LOWERING_STEP_STEPSIZES_H
#define EJK_LOWERING_STEP_STEPSIZES_H

#include "lowering/step/StepPlan.h"

namespace ejk {

/// The most warps of a block that has the whole state.
constexpr unsigned kMostWarpsOfState = 32;

/// The most warps of a block that share its rows and have columns of their own.
constexpr unsigned kMostColumnWarps = 4;

/// The warps with large tiles (kLargeTilesAttr) that a head has; 0 where there is no such kernel.
/// It has one matrix and no other state, reads none that was saved, and leaves no lane without rows
/// or columns: else registers would not suffice. One warp alone would take longer for the rows.
/// Axes and layouts of `plan` are known.
unsigned warpsOfLargeTiles(const StepPlan &plan);

/// Chooses the sizes of a plan, whose axes, layouts and crossings are known.
class StepSizes {
public:
  explicit StepSizes(StepPlan &plan) : plan(plan), scan(plan.scan) {}
  /// A thread's elements of the state, and how lanes and warps divide it.
  void chooseTile();
  /// The domains of crossings, and how many steps a stage has.
  void chooseChunk();

private:
  /// Adds to `domain` the sequences that `value` is computed from, at its own channels or at those
  /// of the other half.
  void addSources(mlir::Value value, bool rotated, Domain &domain,
                  llvm::DenseSet<std::pair<mlir::Value, unsigned>> &seen);
  void addQueryDomain(unsigned index);
  /// Computes offsets in a stage for the current chunk; returns the registers per thread for
  /// prefetching the next chunk's rows.
  unsigned sizeStages();

  StepPlan &plan;
  ScanOp scan;
};

} // namespace ejk

#endif // EJK_LOWERING_STEP_STEPSIZES_H
