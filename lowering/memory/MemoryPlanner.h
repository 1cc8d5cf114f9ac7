//===- MemoryPlanner.h - plans a program's shared memory ----------*- C++ -*-===//
//
// Goes over a laid-out program in program order. Gives each tile in shared memory a place, and inserts
// barriers, fences and waits where the accesses so far require them (SharedMemory.h has the rule).
// Where an op would store to shared memory and then load what other threads stored, the planner
// divides the op, so that a barrier can stand between the two.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_MEMORY_MEMORYPLANNER_H
#define EJK_LOWERING_MEMORY_MEMORYPLANNER_H

#include "dialect/tile/Branch.h"
#include "lowering/layout/MatmulOperands.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/SharedMemory.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace ejk {

/// The shared memory accesses that each loop leaves pending at the end of an iteration, by the
/// loop's number in program order. They are found by planning: the first plan has a barrier at the
/// head of each loop and waits for all bulk stores at its end. The next plan knows the accesses and
/// has only the barriers that they need.
struct LoopEnds {
  llvm::DenseMap<unsigned, SharedMemory::Pending> known, found;
  /// Whether an iteration left more accesses than `known` says.
  bool wrong = false;
  /// Whether allocation ignores the accesses of the previous iteration.
  bool areInPlace = false;
  /// Whether loops in `known` keep the barrier at their head; `known` then lists only bulk stores.
  bool haveBarriers = false;
};

class MemoryPlanner {
public:
  /// Up to `freeBytes` of shared memory are spent to save barriers: a recently used range is not
  /// reused, and the bf16 terms of an f32 cumsum lie side by side. `doubleBuffered` gives matmul
  /// operands that a loop carries two buffers. Results of the program for which `isUsed` does not
  /// hold are not stored.
  MemoryPlanner(tile::ProgramOp program, llvm::function_ref<bool(unsigned)> isUsed,
                unsigned freeBytes, bool doubleBuffered, LoopEnds &loopEnds);
  /// Plans the program in place. Returns the bytes of shared memory that a block needs.
  unsigned run();

private:
  using Value = mlir::Value;
  using Operation = mlir::Operation;
  using Range = SharedMemory::Range;
  template <typename T> using Vector = llvm::SmallVector<T>;

  /// A tile of the program. In shared memory its layout has its place; the range is that of the
  /// whole ring if a ring holds it.
  struct Tile {
    mlir::Type type;
    tile::LayoutAttr layout;
    Range range = {};
    /// The wgmma group that computes this tile; 0 once it has been waited for.
    unsigned group = 0;
  };
  struct Ring {
    Range range = {}, mbarriers = {};
    bool hasMbarriers = false, usesTma = false;
  };
  /// Two buffers of one size. An iteration uses the first where the next iteration uses the second.
  using BufferPair = std::pair<Range, Range>;
  /// The double buffers of a loop over chunks.
  struct DoubleBuffers {
    mlir::Block *body = nullptr;
    /// How many buffers were allocated before the loop.
    unsigned before = 0;
    Vector<BufferPair> carried, own;
    /// Tiles in `own`: their buffers stay allocated for the whole loop.
    llvm::DenseSet<Value> tiles;
  };
  /// Outstanding wgmma matmuls, oldest first, with the shared memory that each reads.
  struct InFlight {
    Value matmul;
    unsigned group;
    Vector<Range> reads;
  };

  // MemoryPlanner.cpp: the pass over a program, and most ops.
  static bool isTile(Value value) { return mlir::isa<mlir::VectorType>(value.getType()); }
  /// The users of the buffer of `value`. A tile in shared memory that a loop carries keeps its
  /// buffer, so users of the loop's result count.
  static Vector<Operation *> usersOfPlace(Value value);
  void findLastUses();
  void visitBlock(mlir::Block &block);
  void visit(Operation *op);
  /// The tile of `value`. Waits for its matmul and adds its parts first.
  Tile &use(Value value);
  /// What `op` reads of shared memory.
  Vector<Range> readsOf(Operation *op);
  /// Loads that, for all the program says, may still be outstanding when `op` has been issued.
  void load(Operation *op);
  void makeInRegisters(Value value);
  void setPlace(Value value, tile::LayoutAttr layout);
  void visitLoad(tile::LoadOp op);
  void visitStore(tile::StoreOp op);
  void visitConvert(tile::ConvertOp op);
  void visitInverses(mlir::Operation *op);
  void visitBroadcast(tile::BroadcastOp op);
  void visitRangeGuard(tile::RangeGuardOp op);
  void visitExtract(mlir::vector::ExtractOp op);
  void visitInsert(mlir::vector::InsertOp op);

  // PlanMatmuls.cpp: matmuls, cumsums and sums.
  void visitDot(tile::DotOp op);
  void visitMatmul(Value result, Value acc, bool fromZero, Vector<Range> reads);
  void makeTriangles();
  Value triangleOf(tile::CumsumOp op) const;
  void visitCumsum(tile::CumsumOp op);
  Value addCumsum(tile::CumsumOp op, Value term, Value acc);
  void visitTransposedCumsum(tile::CumsumOp op);
  void visitSum(tile::SumOp op);
  Value finishSum(Value sum);
  /// Called before a loop or a region that may not run.
  void finishSums();

  // PlanLoops.cpp: loops and branches.
  bool beginsWithBarrier(mlir::Block &body) const;
  bool needsDoubleBuffer(Value carried) const;
  DoubleBuffers placeCarried(mlir::scf::ForOp op);
  Vector<Range> buffersFreeDuring(mlir::scf::ForOp op) const;
  Tile allocateDoubleBuffer(mlir::Type type, tile::LayoutAttr layout, Readers readers);
  void visitFor(mlir::scf::ForOp op);
  void visitBranch(tile::Branch op);

  // PlanRings.cpp: rings and partitions.
  void visitMakeRing(tile::MakeRingOp op);
  void visitAcquire(tile::AcquireOp op);
  void visitPut(tile::PutOp op);
  void visitTake(tile::TakeOp op);
  void visitRelease(tile::ReleaseOp op);
  void arriveAtEmpty(tile::ReleaseOp op);
  bool hasArrived(Value tile);
  void releaseAwaited();
  bool isRead(const Range &range);
  void endRing(Value value);
  void visitPartitions(tile::WarpSpecializeOp op);

  // PlanOrder.cpp: allocation, barriers, fences and waits.
  Tile newShared(mlir::Type type, tile::LayoutAttr layout = {}, Readers readers = Readers::units);
  /// The same for `value`. If a loop carries `value`, its existing buffer.
  Tile sharedFor(Value value, tile::LayoutAttr layout, Readers readers = Readers::units);
  const Tile *carriedPlace(Value value);
  /// Whether a tile that avoids recently used ranges still fits into `freeBytes`.
  bool fitsFreely(mlir::Type type, tile::LayoutAttr layout) const {
    return fitsFreely(type, layout, justUsed());
  }
  bool fitsFreely(mlir::Type type, tile::LayoutAttr layout, llvm::ArrayRef<Range> avoided) const {
    return memory.find(sharedBytes(type, layout), sharedAlignment(layout), avoided).end <=
           freeBytes;
  }
  /// Ranges accessed since the last barrier, or read by outstanding matmuls.
  Vector<Range> justUsed() const;
  /// Ranges that a new tile should not overlap.
  Vector<Range> avoidedFor(mlir::Type type, tile::LayoutAttr layout) const;
  void fence();
  void barrier();
  /// What stands before a barrier, and what is pending after it.
  void passBarrier();
  void waitForCopies(unsigned pending);
  void awaitBulkStores(llvm::function_ref<bool(const SharedMemory::BulkStore &)> is);
  void awaitBulkStores() {
    awaitBulkStores([](auto &) { return true; });
  }
  void beforeRead(llvm::ArrayRef<Range> ranges);
  void awaitReaders(const Range &range);
  void makeWritable(const Range &range);
  void beforeWrite(const Range &range);
  void awaitGroup(unsigned group);
  void awaitAll();

  tile::ProgramOp program;
  mlir::OpBuilder b;
  mlir::Location loc;
  unsigned freeBytes;
  bool doubleBuffered;
  LoopEnds &loopEnds;
  unsigned warps;
  bool warpgroups;
  /// Whether a block has many matmuls. Bulk stores are waited for later then.
  bool isLong = false;

  SharedMemory memory;
  /// Ranges that bulk stores have read from so far; ranges that were allocated for tiles.
  Vector<Range> bulkStoredFrom, allocatedRanges;
  llvm::DenseMap<Value, Tile> tiles;
  llvm::DenseMap<Value, Ring> rings;
  Vector<InFlight> inFlight;
  unsigned groupsIssued = 0;
  /// Loads from shared memory since the last barrier: the tile in registers, if any, and the range.
  Vector<std::pair<Value, Range>> loadsSinceBarrier;
  /// The next iteration's buffer of a double-buffered loop argument.
  llvm::DenseMap<Value, Tile> nextPlaces;
  /// The double buffers of the innermost loop.
  DoubleBuffers buffers;
  /// Sums whose parts lie in shared memory, with those. They are added at the first use, where a
  /// barrier may have passed already.
  llvm::MapVector<Value, Value> partialSums;
  llvm::DenseMap<Operation *, Operation *> summedInParts;
  /// The values whose last use is the op, or lies in its regions.
  llvm::DenseMap<Operation *, Vector<Value>> lastUses;
  /// The program's loops in program order.
  llvm::DenseMap<Operation *, unsigned> loopNumbers;
  /// Program arguments that nothing is stored to, because nothing uses the result.
  llvm::DenseSet<Value> unstored;
  Vector<tile::ReleaseOp> pendingReleases;
  /// Above the diagonal; strict; number of rows; the row that is subtracted, or -1; the type.
  using TriangleKey = std::tuple<bool, bool, int64_t, int64_t, const void *>;
  static TriangleKey triangleKey(tile::CumsumOp op, mlir::Type element);
  std::map<TriangleKey, Value> triangles;
};

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_MEMORYPLANNER_H
