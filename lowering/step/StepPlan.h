//===- StepPlan.h - distribution of a scan over threads, step by step ------===//
//
// The step-by-step schedule gives each sequence and head one or more thread blocks. One axis
// of the state, the *columns*, is divided over blocks, warps and lanes, which work
// independently. Reads sum along the other axis, the *rows*, which is divided over a few lanes
// of a warp and each thread's registers.
//
//   rows:    row(i) = (i / rowGroup)·(rowGroup·rowSlots) + rowSlot·rowGroup + i % rowGroup
//   columns: column(j) = block·blockColumns + colSlot·colsPerThread + j
//   lane = colLane·rowLanes + rowLane,   warp = colWarp·rowWarps + rowWarp
//   rowSlot = rowWarp·rowLanes + rowLane, colSlot = colWarp·colLanes + colLane
//
// A kernel for many steps keeps the rows of a column within one warp, whose lanes reduce by
// shuffles. A kernel for a single step (decoding) is limited by the bytes of the state: it
// divides rows over warps too, so that a warp accesses whole cache lines, and reduces once
// through shared memory.
//
// Where there are many thread blocks, a thread of a kernel for many steps may have the rows of
// several lanes (kLargeTilesAttr): it has fewer sums to shuffle, and its warp accesses longer lines.
// It sums the rows of each such lane apart (rowChains), and then as the lanes would, so that results
// have the same bits.
//
// A step may need sums along both axes in turn: where what it reads along one axis decides over
// what it reads along the other, or a sum over channels over what it adds. No column is independent
// then. One thread block has the *whole state*, and sums over columns go through shared memory, as
// do vectors that the step uses along both axes.
//
// Values that a step computes without the state (widening, scales, a user's gate, the
// exponential of each gate) are computed once per block, for `chunk` steps at a time. The
// threads of the state read them from shared memory as f32. These values are the *crossings*.
//
// In a scan with queries, a block has the state of a group of query heads. A step updates it once,
// and then computes what depends on a query in a loop over the group. A group's size is not known,
// so that crossings of queries are not staged: each thread computes those of its own rows or
// columns from rows that it loads one query ahead.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_STEP_STEPPLAN_H
#define EJK_LOWERING_STEP_STEPPLAN_H

#include "dialect/ejk/Ejk.h"
#include "lowering/step/RowPlan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// Whether a step's value has more than one channel. A vector of one channel is a scalar to the
/// threads.
bool hasChannels(mlir::Value value);

/// How a step's value is distributed over threads.
enum class Layout { scalar, row, column };

/// A value that is computed without the state and used with it.
struct Crossing {
  mlir::Value value;
  Layout layout;
  bool exponential;     // the gate's exponential rather than the gate
  bool ofQuery = false; // differs between the queries of a group; not in a stage
  unsigned offset = 0;  // in floats, from the start of a stage
};

/// A sequence, or after these a query, as a domain loads it: its own channels, or those of the
/// other half (for ejk.rotate_half).
struct LoadedRow {
  unsigned sequence;
  bool rotated;
  bool operator<(const LoadedRow &other) const {
    return std::pair(sequence, rotated) < std::pair(other.sequence, other.rotated);
  }
};

/// The crossings of one layout: `length` elements a step, of which a thread computes `width` at a
/// time.
struct Domain {
  Layout layout = Layout::scalar;
  unsigned length = 1, width = 1;
  unsigned unitsPerThread = 1;
  llvm::SmallVector<unsigned> crossings;
  /// The sequences that its crossings are computed from.
  llvm::SmallVector<LoadedRow> rows;
  /// Whether one of them uses `ejk.rotate_half`.
  bool rotates = false;
};

struct StepPlan {
  ScanOp scan;
  Axis rowAxis = Axis::key;
  int64_t rows = 1, columns = 1;
  /// Whether the elements of a column lie side by side in memory, rather than those of a row.
  bool rowsAreInnermost() const { return (rowAxis == Axis::value) != valueMajor; }

  /// Of a scan without states, whose rows are computed side by side: all else but the warps is
  /// unused.
  std::optional<RowPlan> ofRows;
  /// For exactly one step.
  bool singleStep = false;
  /// Whether a thread block has the whole state.
  bool wholeState = false;
  /// Whether states lie in pools as [V,K].
  bool valueMajor = false;
  unsigned rowsPerThread = 1, rowLanes = 1, rowWarps = 1;
  /// Rows of a thread that are loaded together; and the lanes whose rows it has.
  unsigned rowGroup = 1, rowChains = 1;
  unsigned colsPerThread = 1, colLanes = 1, colWarps = 1;
  unsigned columnBlocks = 1;

  unsigned chunk = 1;  // steps per stage of shared memory
  unsigned unroll = 1; // steps per iteration of the inner loop
  unsigned stageFloats = 0;
  /// The number of reductions across warps; each takes `partialFloats()` of shared memory.
  unsigned numReads = 0;

  llvm::SmallVector<Crossing> crossings;
  llvm::SmallVector<Domain> domains;
  /// Of the crossings of queries, one each. A thread computes its own elements, `width` at a time.
  llvm::SmallVector<Domain> queryDomains;
  /// Values that differ between the queries of a group.
  llvm::DenseSet<mlir::Value> queryValues;
  /// Values that depend on a state, and the layouts of vectors among them.
  llvm::DenseSet<mlir::Value> stateful;
  llvm::DenseMap<mlir::Value, Layout> layouts;

  unsigned threads() const { return rowWarps * colWarps * 32; }
  unsigned rowSlots() const { return rowWarps * rowLanes; }
  /// The lane, among those whose rows a thread has, of its row `i`.
  unsigned chainOf(unsigned i) const { return i / rowGroup % rowChains; }
  unsigned paddedRows() const { return rowsPerThread * rowSlots(); }
  unsigned blockColumns() const { return colWarps * colLanes * colsPerThread; }
  unsigned stages() const { return singleStep ? 1 : 2; }
  unsigned partialFloats() const { return rowWarps > 1 ? rowWarps * blockColumns() : 0; }
  /// The area that blocks with the whole state sum over columns in, and exchange vectors through.
  unsigned exchangeFloats() const {
    return wholeState ? std::max(colWarps * paddedRows(), blockColumns()) : 0;
  }
  unsigned sharedFloats() const {
    if (ofRows)
      return ofRows->exchangeFloats();
    return stages() * stageFloats + numReads * partialFloats() + exchangeFloats();
  }
  unsigned sharedBytes() const { return sharedFloats() * unsigned(sizeof(float)); }
  unsigned lengthOf(Layout layout) const {
    return layout == Layout::scalar ? 1 : layout == Layout::row ? paddedRows() : blockColumns();
  }
  Axis columnAxis() const { return rowAxis == Axis::key ? Axis::value : Axis::key; }
  Layout layoutOf(Axis axis) const {
    return axis == Axis::head ? Layout::scalar : axis == rowAxis ? Layout::row : Layout::column;
  }
  static Axis across(Axis axis) { return axis == Axis::key ? Axis::value : Axis::key; }
  /// The layout of a vector that a step sums over its channels.
  Layout layoutOfSummed(mlir::Value vector) const;
  /// The index of a crossing; null if there is none.
  std::optional<unsigned> find(mlir::Value value, Layout layout, bool exponential) const;

  /// Plans `scan` for any number of steps, or for exactly one; whole states have a plan for any
  /// number alone. Emits an error at the op in the way
  /// if `scan` is not supported.
  static mlir::FailureOr<StepPlan> make(ScanOp scan, bool singleStep = false);
  /// The part of a plan that does not depend on the GPU: axes, values that depend on a state,
  /// layouts and crossings. Emits an error at the op in the way if `scan` is not supported.
  /// Values of `aside`, side reads and what depends on them, have no place in it. Nor have whole
  /// states, unless they may be.
  static mlir::FailureOr<StepPlan> analyze(ScanOp scan, const llvm::DenseSet<mlir::Value> &aside,
                                           bool mayBeWhole = false);
};

} // namespace ejk

#endif // EJK_LOWERING_STEP_STEPPLAN_H
