//===- StepEmitter.h - state shared by the step-by-step emission --*- C++ -*-===//
#ifndef EJK_LOWERING_STEP_STEPEMITTER_H
#define EJK_LOWERING_STEP_STEPEMITTER_H

#include "dialect/ejk/EjkShifts.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/Segments.h"
#include "lowering/step/StepKernel.h"
#include "mlir/IR/IRMapping.h"

namespace ejk {

/// A thread's elements of a step's value, in the order of its layout (rows, columns, or rows ×
/// columns for a matrix).
using Tile = llvm::SmallVector<mlir::Value>;

class StepEmitter {
  friend class RowEmitter;

public:
  StepEmitter(const StepPlan &plan, llvm::StringRef name, mlir::OpBuilder builder)
      : plan(plan), scan(plan.scan), name(name), b(builder, scan.getLoc()) {}
  Kernel run(mlir::gpu::GPUModuleOp module, SizeName sizeName);

private:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// A tensor with one row per step, or a parameter: the address of this head's part, and the
  /// distance between rows in elements.
  struct Row {
    Value pointer, heads = {}, base = {}, stride = {};
    Type element = {};
    /// Of rows of another step: which, and the head's part of the halo, if there is one.
    ShiftOp shift = {};
    Value haloPointer = {}, haloBase = {}, haloStride = {};
    /// As i32: the caller's stride, where it decides, and the first column of the head's part of a row.
    Value givenStride = {}, column = {};
  };
  /// A contiguous part of a state in memory that one thread has. `slots` are its elements in the
  /// thread's tile. If several threads have the part, only the `leader` stores it.
  struct StatePart {
    Value offset, valid, leader;
    llvm::SmallVector<unsigned> slots;
  };

  // StepKernel.cpp
  void buildSignature(SizeName sizeName);
  Value ownHead(Value ownHeads);
  void locate();
  Value rowOfStep(Value step);
  /// Where the step with row `memoryRow` finds its row of a sequence: row `row` from `base` on.
  /// `exists` is null where it is certain that there is one. Where the halo's rows have another
  /// stride, it is row `haloRow` of the halo unless it is `inside` the tensor.
  struct RowAddress {
    Value base, row, exists, inside = {}, haloRow = {};
  };
  RowAddress findRow(const Row &row, Value memoryRow);
  void storeLastRows();
  Value positionOf(Value row);
  Value rowOf(unsigned i);
  /// Calls `visit` for each part of a state that starts at element `start` in memory.
  void forEachPart(Type stateType, Layout layout, Value start, bool valueMajor,
                   llvm::function_ref<void(const StatePart &)> visit);
  /// The first element of the `index`-th state of its type.
  Value stateOffset(Type stateType, Value index);
  void storeTile(Type stateType, Layout layout, Value pointer, Type stored, Value start,
                 bool valueMajor, const Tile &tile);
  Tile loadState(unsigned i);
  void storeState(unsigned i, const Tile &tile);
  /// Whether a position is the first, or the last, in scan order of the rows that share a saved
  /// state; and the index of that state among all saved states.
  Value entersChunk(Value position), leavesChunk(Value position);
  Value savedIndex(Value position);
  void forEachSaved(unsigned i, Value position, llvm::function_ref<void(unsigned, Value)> visit);
  void storeSaves(Value position);
  void barrier();
  void describeLaunch();

  // RowKernel.cpp: rows without states, side by side.
  void runRows();

  // StepPools.cpp: states in pools.
  Value slotOffset(Type stateType, Value pool, Value slot);
  void storeInSlot(WriteStatesOp write, Type stateType, Layout layout, Value pointer, Value slot,
                   Value exists, const Tile &tile);
  void storeSavesInSlots(Value position);
  void clearOutputs();

  // StepStages.cpp: crossings, computed into shared memory.
  void declareShared(mlir::gpu::GPUModuleOp module);
  Value sharedBase();
  void clearPadding();
  void computeInvariants();
  Value addressOf(const Row &row, const RowAddress &there, Value channel);
  llvm::SmallVector<Value> prefetch(Value firstStep);
  void commit(mlir::ValueRange rows, Value firstStep, Value stage);
  struct Unit {
    Value step, position, active;
  };
  Unit unitOf(const Domain &domain, unsigned index);
  /// The position of a unit: the step's row, counted from the first one scanned here, the first
  /// channel, and the values loaded and computed there.
  struct Place {
    Value row, position;
    mlir::IRMapping known;
  };
  /// The position of the other half's channels.
  Value rotated(Layout layout, Value position);
  Value evaluate(Value value, unsigned width, Place &here, Place *otherHalf = nullptr);

  // StepQueries.cpp: what depends on a query, for each query of the state's group.
  /// Emits what depends on a query in the step with row `row`.
  void runQueries(Value row);
  /// Calls `visit` with the first channel of each part of this thread's elements of a crossing of a
  /// query, and with whether the part lies within the vector.
  void forEachQueryPart(const Domain &domain,
                        llvm::function_ref<void(Value channel, Value valid)> visit);
  /// The rows that crossings of query `query` of the group are computed from.
  llvm::SmallVector<Value> loadQueryRows(Value row, Value query);
  /// Computes these crossings from the rows.
  void computeQueryCrossings(mlir::ValueRange rows, Value row);

  // StepBody.cpp: one step on the thread's tiles.
  /// Emits step `step` of `stage` on `states` and returns the new states, which `withStates`
  /// receives as soon as they are computed. `row` is the step's row in the sequence.
  llvm::SmallVector<Tile> runStep(
      Value step, Value row, Value stage, llvm::ArrayRef<Tile> states,
      llvm::function_ref<void(llvm::ArrayRef<Tile>)> withStates = [](llvm::ArrayRef<Tile>) {});
  void runOp(mlir::Operation *op);
  unsigned tileSize(Type type, Layout layout) const;
  Tile tileOf(Value value, Layout layout, bool exponential = false);
  Tile tileAsPlanned(Value value, Layout layout, bool exponential);
  Tile loadCrossing(unsigned index);
  Tile exponentialOf(const Tile &tile);
  void clearPaddedRows(Tile &tile, unsigned perRow, double number = 0);
  Tile rowTileOf(Value value);
  Tile columnTileOf(Value value, double padding = 0);
  void runDecay(DecayOp op);
  void runOuterAdd(OuterAddOp op);
  void runRead(ReadOp op);
  void runCheckpoint(CheckpointOp op);
  void runGateGradient(GateGradientOp op);
  void runReduction(mlir::Operation *op);
  using Combine = llvm::function_ref<Value(Value, Value)>;
  Value sumOf(Value a, Value c) { return b.make<mlir::arith::AddFOp>(a, c); }
  void sumOverLanes(Tile &partial) {
    combineLanes(partial, [&](Value a, Value c) { return sumOf(a, c); });
  }
  Value combineChains(llvm::SmallVectorImpl<Value> &chains, Combine combine);
  void combineLanes(Tile &partial, Combine combine);
  void combineWarps(Tile &partial, Combine combine);
  // StepExchange.cpp: a whole state in a block.
  Value exchangeAt(Value offset);
  void combineColumns(Tile &partial, Combine combine);
  Tile exchange(const Tile &tile, Layout from);
  Value isFirstColumnLane();
  Tile elementwise(mlir::Operation *op, Layout layout);
  void storeOutput(unsigned i, Value value, Value row);

  const StepPlan &plan;
  ScanOp scan;
  llvm::StringRef name;
  KernelBuilder b;
  Kernel kernel;

  llvm::SmallVector<Row> sequences, parameters, outputs;
  /// Of a kernel of one step: what it stores for later calls, and the memory of each.
  struct LastRows {
    LastRowsOp op;
    Value heads = {}, rows = {}, halo = {}, result = {}, stride = {};
  };
  llvm::SmallVector<LastRows> lastRows;
  llvm::SmallVector<Value> initialPointers, finalPointers, savedPointers, savePointers;
  Value cuPointer, rememberedPointer;
  /// The states that are kept in pools, and the sequence's slots.
  PooledScan pooled;
  PoolArguments pools;
  /// The head to read in tensors with fewer heads, by their number of heads.
  llvm::DenseMap<Value, Value> sharedHeads;
  Value totalSteps, heads, queryHeads, offsets; // i64
  SegmentSizes segmentSizes;                    // none without segments
  /// Of a scan with queries: how many share a state. In their loop, which of them it is, and its
  /// head; outside of it, `queryHead` is the state's head.
  Value group, queryInGroup, queryHead;                                            // i32
  Value thread, rowSlot, rowLane, rowWarp, head, blockColumn, localColumn, column; // i32
  Value leadsRows, leadsColumns;
  Value sequence;                     // i32
  /// Where lanes have a head each: whether this one is no head of another lane, too.
  Value hasHead;
  Value stateIndex, firstRow, length; // i64; of a segment where there are any
  /// The sequence's length and first row among all, and the position there of a segment's first.
  Value sequenceLength, sequenceFirst, firstPosition;
  bool columnsPadded = false;
  mlir::LLVM::GlobalOp shared;
  unsigned readsDone = 0;
  /// Scalars that are constant in time, and their exponentials.
  mlir::IRMapping invariants;
  llvm::DenseMap<Value, Value> invariantExponentials;

  // The current step: the tiles of its values, and the address of its crossings.
  llvm::DenseMap<Value, Tile> tiles;
  llvm::DenseMap<unsigned, Tile> crossingTiles;
  /// Of vectors that lie along one axis, along the other.
  llvm::DenseMap<Value, Tile> exchanged;
  Value stepInChunk, stageAddress, currentRow;
};

} // namespace ejk

#endif // EJK_LOWERING_STEP_STEPEMITTER_H
