//===- CpuScanEmitter.h - the parts of a scan's CPU kernel --------*- C++ -*-===//
//
// A kernel takes a range of work items. An item is a *column block* of one sequence and
// head: some neighbouring columns of the state, as wide as a register block, with all of
// its rows. The columns never meet, so results do not depend on how items are divided among
// threads. Items of one sequence and head that one call has are computed together:
//
//   for each sequence and head of the range:
//     load the states of its column blocks into tiles on the stack
//     for each chunk of steps:
//       prologue: what the steps compute along the rows and per head without reading a
//                 state (gates' exponentials, sums, widened rows), once for all blocks
//       for each column block:
//         for each step of the chunk: pass over the rows of the block's tiles
//       outputs of what was read along the columns
//     store the states
//
// A value is *late* if it depends on a state's matrix or on a read; it is computed for each
// column block. All other values along the rows and all numbers are computed in the
// prologue, and *staged* on the stack for the column blocks to load.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_CPU_CPUSCANEMITTER_H
#define EJK_LOWERING_CPU_CPUSCANEMITTER_H

#include "dialect/ejk/EjkShifts.h"
#include "lowering/cpu/CpuBuilder.h"
#include "lowering/cpu/CpuScanPlan.h"
#include "lowering/kernels/KernelSignature.h"
#include "lowering/kernels/PooledStates.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

class CpuScanEmitter {
public:
  CpuScanEmitter(const CpuScanPlan &plan, llvm::StringRef name, mlir::OpBuilder builder)
      : plan(plan), steps(plan.steps), scan(plan.steps.scan), name(name),
        b(builder, scan.getLoc()) {}
  llvm::FailureOr<Kernel> run(mlir::gpu::GPUModuleOp module, SizeName sizeName);

private:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// A tensor with one row per step, or a parameter: where this head's part starts, and
  /// how far its rows are apart, in elements.
  struct Row {
    Value pointer, heads = {}, base = {}, stride = {};
    Type element = {};
    /// Of rows of another step: which, and this head's part of the halo, if there is one.
    ShiftOp shift = {};
    Value haloPointer = {}, haloBase = {}, haloStride = {};
    Value givenStride = {}; // the caller's, where it decides
  };
  /// Values that are known where the builder stands; a scope sees those around it.
  struct Scope {
    explicit Scope(Scope *parent = nullptr) : parent(parent) {}
    Scope *parent;
    llvm::DenseMap<Value, Value> known;
    Value lookup(Value value) const {
      for (const Scope *scope = this; scope; scope = scope->parent)
        if (Value found = scope->known.lookup(value))
          return found;
      return {};
    }
  };
  /// The channels that a vector is computed at: `width` of them from `position` on.
  struct Channels {
    Layout layout = Layout::scalar;
    Value position = {};
    unsigned width = 1;
    Value mask = {};
  };
  /// A value of the prologue, kept for each step of a chunk.
  struct Staged {
    Value value;
    Layout layout;
    bool exponential;
    Value buffer;
  };
  /// Columns [position, position + width), the `index`-th block that this call has.
  struct Block {
    Value index, position, mask;
  };

  // CpuScanKernel.cpp: the signature, who works on what, the loops.
  void buildSignature(SizeName sizeName);
  void locate();
  Value ownHead(Value ownHeads);
  Value rowOfStep(Value step);
  void allocateStates();
  void runSequence(Value firstBlock);
  void runChunk(Value firstStep, Value count, Value firstBlock);
  Value allocate(int64_t floats);
  Value floatAt(Value base, Value offset) { return b.at(base, b.getF32Type(), offset); }

  // CpuScanValues.cpp: a step's values.
  Value evaluate(Value value, const Channels &at, Scope &scope);
  Value evaluateOp(mlir::Operation *op, const Channels &at, Scope &scope);
  /// The step's row of a sequence, or the parameter, as `value`.
  Value loadArgument(mlir::BlockArgument value, const Channels &at);
  /// The exponential of a gate, in f32; a number where the gate is one.
  Value exponential(Value gate, const Channels &at, Scope &scope);
  /// `value` in f32.
  Value evaluateWide(Value value, const Channels &at, Scope &scope) {
    return b.widen(evaluate(value, at, scope));
  }
  bool isStaged(Value value, Layout layout) const;
  Value loadStaged(Value value, const Channels &at, bool isExponential);
  void computeInvariants();
  Value turned(Layout layout, Value position);

  // CpuScanPrologue.cpp
  void emitPrologue(Value firstStep, Value count, Value isLeader);
  void storeOutput(unsigned i, Value value, const Channels &at, Value isLeader);
  Layout outputLayout(Value value) const;
  /// Runs `body` on all channels along the rows, `rowWidth` at a time.
  llvm::SmallVector<Value>
  overRows(mlir::ValueRange carried,
           llvm::function_ref<llvm::SmallVector<Value>(const Channels &, mlir::ValueRange)> body);

  // CpuScanRows.cpp: a step on a column block.
  void runStep(const Block &block, Value isLeader);
  void runLevel(unsigned level, const Block &block, Scope &step, Scope &columns);
  void runCheckpoint(CheckpointOp op, const Block &block, Scope &step, Scope &columns);
  void storeSave(unsigned i, const Block &block, Scope &step, Scope &columns);
  /// Where the state after a row goes, and whether it does; null means that it does.
  struct SavePlace {
    Value memory, exists;
    Type element;
    bool byRow, valueMajor = false;
  };
  void storeSavedRow(const SavePlace &place, Value row, const Block &block, Value state);
  void finishSave(const SavePlace &place, const Block &block);
  /// Evaluates, before a loop over rows, what the loop takes along the columns and per head.
  void prepareMatrix(Value matrix, const Channels &at, Scope &columns, Scope &prepared);
  /// Row `row` of a K×V value.
  Value matrixRow(Value matrix, Value row, const Block &block, Scope &prepared, Scope &rows);
  Value rowOperand(Value value, Value row, bool isExponential, Scope &rows);
  using RowBody =
      llvm::function_ref<llvm::SmallVector<Value>(Value row, mlir::ValueRange sums)>;
  /// Sums over all rows, in as many partial sums as keep a core's pipelines full.
  llvm::SmallVector<Value> sumOverRows(unsigned numSums, RowBody body);

  llvm::SmallVector<Value> loadCarried(const Block &block);
  void storeCarried(const Block &block, mlir::ValueRange carried);
  /// What follows from a step's reads: its outputs, and the next of the carried vectors.
  llvm::SmallVector<Value> finishStep(const Block &block, Scope &columns, mlir::ValueRange carried,
                                      Value isLeader);

  // CpuScanLinear.cpp: several steps in one pass over the rows.
  struct LinearRows {
    unsigned numReads = 0, numTerms = 0, numDots = 0;
    /// Whether a decay lies along the rows; else reads and terms are staged values.
    bool decays = false;
    Value vectors = {}, dots = {};
  };
  using VisitLinear = llvm::function_ref<void(unsigned t, mlir::Operation *op)>;
  void forEachLinearOp(const LinearState &state, VisitLinear visit, VisitLinear visitSide = {});
  Value rowVector(OuterAddOp op) const {
    return steps.rowAxis == Axis::key ? op.getKey() : op.getValue();
  }
  Value columnVector(OuterAddOp op) const {
    return steps.rowAxis == Axis::key ? op.getValue() : op.getKey();
  }
  void allocateLinear();
  Value linearVector(const LinearRows &rows, Value block, unsigned index, Value position);
  void emitLinearPrologue(Value firstStep, Value count);
  void emitLinearRows(const LinearState &state, const LinearRows &rows, Value firstStep,
                      Value block);
  Value hasBoundary(Value firstStep);
  void runLinear(const Block &block, Value firstStep, Value inFirst, Value isLeader);

  // CpuScanPrefetch.cpp: what the next chunk takes, asked for in time.
  void prefetchLine(Value address, bool isWritten);
  int64_t mostLines() const;
  Value shareOfLines(Value blocks);
  void prefetchStep(Value step, Value line);
  void prefetchSaved(Value memory, mlir::RankedTensorType type, Value memoryRow, bool isWritten,
                     const Block &block, Value firstStep, unsigned count, Value first,
                     int64_t every);
  void prefetchShare(const Block &block, Value firstStep, unsigned count, Value first,
                     int64_t every);
  llvm::SmallVector<Value> overRowsPrefetching(const Block &block, Value firstStep, unsigned count,
                                               int64_t every, mlir::ValueRange sums, RowBody body);

  // CpuScanSide.cpp: reads along the columns.
  struct SideSums {
    /// What is read: [step of the chunk][row]; and of each step of its block so far, the dot
    /// products of its terms: [step of the chunk][term].
    Value rows = {}, dots = {};
    unsigned terms = 0;
  };
  /// A side read of a pass over the rows, `step` steps after the pass's first.
  struct SideRead {
    ReadOp op;
    unsigned step;
    Value vector;
  };
  void allocateSides();
  void clearSides(Value count);
  Value withinColumns(Value vector, Value mask);
  Value sideVector(ReadOp read, const Channels &at, Scope &columns);
  void addTo(Value place, Value value);
  void addSideDots(ReadOp read, Value vector, mlir::ValueRange terms, Value mask);
  unsigned rowsOfSidePass(unsigned numReads) const;
  Value sideProducts(Value row, Value vector, Value mask);
  Value addInterleaved(Value a, Value c, llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high);
  Value sumSideLanes(llvm::ArrayRef<llvm::SmallVector<Value>> vectors);
  void addSideRows(llvm::ArrayRef<SideRead> reads, Value row, Value inFirst,
                   llvm::ArrayRef<llvm::SmallVector<Value>> products);
  void finishSides(Value firstStep, Value count);

  // CpuScanStates.cpp: states in memory and in tiles.
  Value tileRow(Value tile, const Block &block, Value row);
  void forEachBlock(Value firstBlock, llvm::function_ref<void(const Block &)> body);
  void copyMatrix(Value memory, Type element, Value tile, const Block &block, bool toMemory,
                  bool valueMajor = false);
  void loadStates(Value firstBlock);
  void storeStates(Value firstBlock, Value isLeader);
  Value entersChunk(Value row), leavesChunk(Value row), savedIndex(Value row);
  Value isFirstRow(Value row), isLastRow(Value row);
  int64_t matrixElements() const { return steps.rows * steps.columns; }

  // CpuScanPools.cpp: states in pools.
  SavePlace placeOfSave(unsigned i, Value row);
  Value slotOf(Value pointer, Value pool, Value slot);
  void clearOutputs(Value isLeader);

  const CpuScanPlan &plan;
  const StepPlan &steps;
  mutable ScanOp scan; // MLIR's ops have no const methods
  llvm::StringRef name;
  CpuBuilder b;
  Kernel kernel;
  mlir::Block *entry = nullptr;
  int64_t stackBytes = 0;

  llvm::SmallVector<Row> sequences, parameters, outputs;
  llvm::SmallVector<Value> initialPointers, finalPointers, savedPointers, savePointers;
  Value cuPointer, begin, end;
  /// The states that are kept in pools, and the sequence's slots.
  PooledScan pooled;
  PoolArguments pools;
  Value numBlocks;    // the column blocks that are computed together
  Value linesOfBlock; // the cache lines of each row that one of them asks for
  Value totalSteps, heads; // i64, as all integers here
  Value head, sequence, stateIndex, firstRow, length;
  llvm::DenseMap<Value, Value> sharedHeads;
  /// A tile of each state: [block][rows][width] of a matrix, [block][width] of a vector
  /// along the columns, [rows] of one along the rows, or one number.
  llvm::SmallVector<Value> tiles;
  /// A matrix on its way to or from memory that lies the other way.
  Value turnedTile;
  llvm::DenseMap<Value, Value> invariants, invariantExponentials;
  /// What a step sums of a saved state, where it enters that state's chunk.
  llvm::DenseMap<mlir::Operation *, Value> checkpointSums;
  llvm::SmallVector<Staged> staged;
  llvm::SmallVector<LinearRows> linearRows;
  llvm::MapVector<mlir::Operation *, SideSums> sides;
  /// The step being computed: its place in its chunk, and its row in memory.
  Value inChunk, currentRow;
  bool inPrologue = false;
};

/// Emits the kernel that runs `plan` into `module`, called `name`; fails, after an error at the
/// scan, where the kernel would need more of a thread's stack than it may use.
llvm::FailureOr<Kernel> emitCpuScan(const CpuScanPlan &plan, mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef name, SizeName sizeName);

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUSCANEMITTER_H
