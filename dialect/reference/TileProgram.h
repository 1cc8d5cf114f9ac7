//===- TileProgram.h - a block program as nested lists of actions -*- C++ -*-===//
//
// A tile.program's region is compiled once, as a scan's step is: each value gets a slot in a flat
// frame, and each op becomes one action on slots. Loops and branches have action lists of their
// own. To add a tile op, write its compile function in TileProgram.cpp or TileOps.cpp and list it
// in the table there.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_TILEPROGRAM_H
#define EJK_DIALECT_REFERENCE_TILEPROGRAM_H

#include "dialect/reference/StepProgram.h"
#include "dialect/reference/TileRings.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk::reference {

/// The first error: its op, the message, and notes at other ops.
struct TileProblem {
  mlir::Operation *at = nullptr;
  std::string what;
  std::vector<std::pair<mlir::Operation *, std::string>> notes;
};

struct TileFrame : Frame {
  int64_t length = 0, slice = 0, firstPosition = 0, sequenceLength = 0;
  std::vector<TileMemory> memory; // by argument; only for rows and state slots
  std::vector<TileRing> rings;
  /// The scheduler of partitions while they run.
  PartitionScheduler *partitions = nullptr;
  std::optional<uint64_t> partitionSeed;
  /// While an exact path runs only to be compared, it stores nothing.
  bool dropsStores = false;
  TileProblem problem;
};

/// Returns false after an error, which is then in the frame.
using TileAction = std::function<bool(TileFrame &)>;
using TileActions = std::vector<TileAction>;
using RowsFinder = std::function<TileMemory(const TileFrame &)>;
bool runAll(const TileActions &actions, TileFrame &frame);

class TileProgram {
public:
  static mlir::FailureOr<TileProgram> compile(tile::ProgramOp op, const Options &options);
  /// Creates a frame with the constants filled in.
  TileFrame makeFrame() const;
  /// Runs the program for the frame's sequence, head and slice.
  bool run(TileFrame &frame) const;
  /// The slot of the region's argument `i` if it is a scalar.
  Slot argument(unsigned i) const { return argumentSlots[i]; }

private:
  friend class TileCompiler;
  TileActions actions;
  std::vector<std::pair<Slot, Tensor>> constants;
  std::vector<Slot> argumentSlots;
  Slot lengthSlot, sliceSlot, headSlot, numHeadsSlot, firstPositionSlot, sequenceLengthSlot;
  bool isSegmented = false;
  size_t numFloats = 0, numInts = 0, numRings = 0;
};

/// Compiles one program; the compile functions append to `actions`.
class TileCompiler {
public:
  TileCompiler(tile::ProgramOp op, const Options &options)
      : op(op), precision(options.precision), pathTolerance(options.pathTolerance) {}
  mlir::FailureOr<TileProgram> compile();

private:
  mlir::LogicalResult compileBlock(mlir::Block &block, TileActions &into);
  mlir::LogicalResult compileOp(mlir::Operation *op);
  // Control flow, scalars and vectors: TileProgram.cpp.
  mlir::LogicalResult compileFor(mlir::scf::ForOp op);
  mlir::LogicalResult compileIf(mlir::scf::IfOp op);
  mlir::LogicalResult compileGuarded(tile::GuardedOp op);
  /// Compiles one side of a branch, which ends by giving `results`.
  mlir::LogicalResult compileSide(mlir::Region &side, llvm::ArrayRef<Slot> results,
                                  TileActions &into);
  mlir::LogicalResult compileConstant(mlir::arith::ConstantOp op);
  mlir::LogicalResult compileBroadcast(mlir::vector::BroadcastOp op);
  mlir::LogicalResult compileExtract(mlir::vector::ExtractOp op);
  mlir::LogicalResult compileInsert(mlir::vector::InsertOp op);
  mlir::LogicalResult compileElementwise(mlir::Operation *op);
  // The tile dialect: TileOps.cpp.
  mlir::LogicalResult compileTileOp(mlir::Operation *op);
  mlir::LogicalResult compileLoad(tile::LoadOp op);
  mlir::LogicalResult compileStore(tile::StoreOp op);
  mlir::LogicalResult compileLoadSlot(tile::LoadSlotOp op);
  mlir::LogicalResult compileStoreSlot(tile::StoreSlotOp op);
  mlir::LogicalResult compileDot(tile::DotOp op);
  mlir::LogicalResult compileSplitDot(tile::DotOp op);
  mlir::LogicalResult compileSolve(tile::SolveOp op);
  mlir::LogicalResult compileInvertDiagonal(tile::InvertDiagonalOp op);
  mlir::LogicalResult compileMergeInverses(tile::MergeInversesOp op);
  mlir::LogicalResult compileMask(tile::MaskOp op);
  mlir::LogicalResult compileWindow(tile::WindowOp op);
  mlir::LogicalResult compileBroadcast(tile::BroadcastOp op);
  mlir::LogicalResult compileRangeGuard(tile::RangeGuardOp op);
  // Cumsums and sums: TileSums.cpp.
  template <typename Op> void addCumsum(Op op, Slot tile, Slot result);
  mlir::LogicalResult compileCumsum(tile::CumsumOp op);
  mlir::LogicalResult compileAddCumsum(tile::AddCumsumOp op);
  mlir::LogicalResult compileSplitTerm(tile::SplitTermOp op);
  mlir::LogicalResult compileRoundToTf32(tile::RoundToTf32Op op);
  mlir::LogicalResult compileTriangle(tile::TriangleOp op);
  mlir::LogicalResult compileSum(mlir::Operation *op, mlir::Value of, uint64_t dim);
  mlir::LogicalResult compileAddParts(tile::AddPartsOp op);
  // Rings and partitions: TileRings.cpp.
  mlir::LogicalResult compileMakeRing(tile::MakeRingOp op);
  mlir::LogicalResult compileAcquire(tile::AcquireOp op);
  mlir::LogicalResult compileFill(tile::FillOp op);
  mlir::LogicalResult compilePut(tile::PutOp op);
  mlir::LogicalResult compileTake(tile::TakeOp op);
  mlir::LogicalResult compileRelease(tile::ReleaseOp op);
  mlir::LogicalResult compilePartitions(tile::WarpSpecializeOp op);
  /// Checks before `op` that it reads no tiles of released items.
  void checkTaken(mlir::Operation *op);

  Slot allocate(mlir::Type type);
  Slot slotOf(mlir::Value value) { return slots.lookup(value); }
  Slot resultSlot(mlir::Operation *op) {
    return slots[op->getResult(0)] = allocate(op->getResult(0).getType());
  }
  /// Copies what a loop or branch yields. All values are read before any is written, because a
  /// value may be yielded to the slot of another.
  void compileHandOver(llvm::ArrayRef<Slot> from, llvm::ArrayRef<Slot> to, TileActions &into);
  /// The index of `memory` among the arguments. Fails with a diagnostic if the program may not load
  /// from it (or store to it).
  mlir::FailureOr<unsigned> memoryOf(mlir::Operation *op, mlir::Value memory, bool isStore);
  /// The same for rows of an argument or of a state slot: returns a function that finds them in a
  /// frame.
  mlir::FailureOr<RowsFinder> rowsOf(mlir::Operation *op, mlir::Value rows, bool isStore);
  void add(TileAction action) { actions->push_back(std::move(action)); }
  template <typename Fn> void addSimple(Fn fn) {
    add([fn](TileFrame &frame) {
      fn(frame);
      return true;
    });
  }
  /// Calls fn(round), where round is f32 rounding or nothing.
  template <typename Fn> void withRounding(Fn fn) {
    if (precision == Precision::native)
      fn([](double x) { return double(float(x)); });
    else
      fn([](double x) { return x; });
  }

  tile::ProgramOp op;
  Precision precision;
  std::optional<double> pathTolerance;
  TileProgram program;
  TileActions *actions = nullptr;
  llvm::DenseMap<mlir::Value, Slot> slots;
  llvm::DenseMap<mlir::Value, unsigned> rings;
  /// The item that each take returned last.
  llvm::DenseMap<mlir::Operation *, Slot> takenItems;
};

/// Records an error at `op`. Returns false.
bool fail(TileFrame &frame, mlir::Operation *op, std::string problem);
/// [rows, columns] of a tile; a vector is one column.
std::pair<size_t, size_t> tileShape(mlir::Type type);
/// Copies rows of `memory` from `row` on, and channels from `channel` on, to a tile of `shape`.
/// Elements outside the rows and `channels` are zero.
void loadRows(const TileMemory &memory, int64_t row, int64_t channel, int64_t channels,
              std::pair<size_t, size_t> shape, double *out);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_TILEPROGRAM_H
