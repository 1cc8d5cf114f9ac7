//===- CpuScanPlan.h - how a scan is computed on a CPU ------------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUSCANPLAN_H
#define EJK_LOWERING_CPU_CPUSCANPLAN_H

#include "lowering/step/StepPlan.h"
#include "lowering/target/CpuTarget.h"

namespace ejk {

/// A K×V state that several steps update in one pass over its rows (CpuScanLinear.cpp).
struct LinearState {
  unsigned number;
  /// Its decays and outer products in a step, from its argument to what is yielded.
  llvm::SmallVector<mlir::Operation *> chain;
  /// Those that sum the rows, and those that sum the columns.
  llvm::SmallVector<ReadOp> reads, sideReads = {};
  /// The save that is taken of it, and how many outer products a step adds behind that.
  std::optional<unsigned> save = {};
  unsigned addsAfterSave = 0;
  /// Its outer products in a step.
  unsigned numAdds() const { return llvm::count_if(chain, llvm::IsaPred<OuterAddOp>); }
};

/// What the step-by-step schedule knows of a scan, and the sizes of a CPU's register blocks.
struct CpuScanPlan {
  /// Axes, layouts, and what depends on a state. Its tile over threads is not made.
  StepPlan steps;

  /// f32 lanes of a vector register.
  unsigned lanes = 1;
  /// Columns of a block, a power of two, and how many blocks there are. The last one may
  /// reach past the columns.
  unsigned width = 1, blocks = 1;
  /// Channels of a row that the prologue computes at a time, a power of two.
  unsigned rowWidth = 1;
  /// Blocks that one call computes together: as many as their tiles fit the stack.
  unsigned group = 1;
  /// Steps of a chunk: as many as their staged values fit the first cache.
  unsigned chunk = 1;
  /// Lanes of the squares that matrices are turned in where they lie the other way in memory;
  /// 1 where rows or columns do not fill them.
  unsigned squareSide = 1;
  /// Rows of an iteration of a loop over rows, each with sums of its own.
  unsigned unroll = 4;

  /// Values that depend on a matrix, a read, or a state along the columns.
  llvm::DenseSet<mlir::Value> late;
  /// How many reads lie between the step's start and a late value, one behind the other. A
  /// pass over the rows computes all matrices and reads of one level.
  llvm::DenseMap<mlir::Value, unsigned> levels;
  unsigned lastLevel = 0;

  /// Steps that one pass over the rows computes; more than 1 only where all K×V states are
  /// `linear`. Divides `chunk`.
  unsigned timeBlock = 1;
  llvm::SmallVector<LinearState> linear;

  /// Reads along the columns, and what depends on them: outputs alone. The blocks of a state's
  /// columns then add up, so one call computes them all.
  llvm::DenseSet<mlir::Value> aside;
  bool hasSideReads() const { return !aside.empty(); }

  /// Of the scan's saves and of its saved states: whether each lies in memory as a kernel's tiles
  /// do, row by row.
  llvm::SmallVector<bool> savesByRow, savedByRow;

  unsigned levelOf(mlir::Value value) const { return levels.lookup(value); }
  unsigned paddedRows() const { return (steps.rows + rowWidth - 1) / rowWidth * rowWidth; }
  /// Whether the state's rows, in which columns lie side by side, are rows in memory too.
  bool liesAsInMemory() const { return steps.rowAxis == Axis::key; }

  /// Plans `scan` for `target`; or says at the op in the way why it cannot be scheduled.
  static mlir::FailureOr<CpuScanPlan> make(ScanOp scan, const CpuTarget &target);
};

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUSCANPLAN_H
