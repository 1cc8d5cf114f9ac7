//===- TileEmitter.h - state shared by the emission of a kernel ---*- C++ -*-===//
//
// TileEmitter turns a laid-out block program into a gpu.func, op by op, in program
// order. While it emits, it allocates shared memory, and inserts barriers, fences and
// waits where the accesses so far require them. Each section of the class is
// implemented in the file that its comment names.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_EMIT_TILEEMITTER_H
#define EJK_LOWERING_EMIT_TILEEMITTER_H

#include "dialect/tile/Branch.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/SharedMemory.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace ejk {

/// A tile in the kernel: a thread's elements, or its address in shared memory.
struct Placed {
  tile::LayoutAttr layout;
  /// This thread's elements, in the order of TileLayout.h; one element if the tile is uniform.
  llvm::SmallVector<mlir::Value> elements;

  // In shared memory:
  mlir::Value address;       // of the first element
  unsigned pitch = 0;        // bytes between rows, if it is not swizzled
  SharedMemory::Range range; // empty if the enclosing loop orders accesses
  mlir::Type type;           // of the tile

  /// The wgmma group that computes this tile; 0 once it has been waited for.
  unsigned group = 0;
};

/// A lane's address in a 128-byte-swizzled tile. `at` adds a constant number of rows, a multiple of
/// 8, and of 16-byte segments. Without `anywhere`, the added segments must share no bits with the
/// lane's own segment, so that the swizzle of the sum is one xor.
struct SwizzledAddress {
  mlir::Value row; // address of the row in its 64-column block; in the first block if `anywhere`
  mlir::Value segment; // swizzled offset in that row, in bytes
  int64_t columnBlockBytes = 0;
  mlir::Value anywhere; // the unswizzled segment number, if segments may carry
  mlir::Value pattern;  // then the xor pattern of the row
  mlir::Value at(KernelBuilder &b, int64_t rows, int64_t segments) const;
};

/// How a column index compares with the row index on one side of the diagonal.
mlir::arith::CmpIPredicate sideOfDiagonal(bool upper, bool strict);

/// The shared memory accesses that each loop leaves pending at the end of an iteration. They are
/// found by emission: the first kernel has a barrier at the head of each loop and waits for all
/// bulk stores at its end. The next kernel knows the accesses and has only the barriers that they
/// need. All but the last are only measured.
struct LoopEnds {
  llvm::DenseMap<mlir::Operation *, SharedMemory::Pending> known, found;
  /// Whether an iteration left more accesses than `known` says.
  bool wrong = false;
  /// Whether allocation ignores the accesses of the previous iteration.
  bool areInPlace = false;
  /// Whether loops in `known` keep the barrier at their head; `known` then lists only bulk stores.
  bool haveBarriers = false;
};

class TileEmitter {
public:
  /// Up to `freeBytes` of shared memory are spent to save barriers: a recently used range is not
  /// reused, and the bf16 terms of an f32 cumsum lie side by side. `doubleBuffered` gives matmul
  /// operands that a loop carries two buffers. With `placeholders`, the kernel is only measured.
  TileEmitter(tile::ProgramOp program, llvm::StringRef name, unsigned freeBytes,
              bool doubleBuffered, LoopEnds &loopEnds, PlaceholderOps *placeholders = nullptr)
      : program(program), name(name),
        b(mlir::OpBuilder(program.getContext()), program.getLoc(), placeholders),
        freeBytes(freeBytes), doubleBuffered(doubleBuffered), loopEnds(loopEnds) {}
  Kernel run(mlir::gpu::GPUModuleOp module, SizeName sizeName);

private:
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  using Type = mlir::Type;
  using Operation = mlir::Operation;
  template <typename T> using Vector = llvm::SmallVector<T>;

  /// TMA coordinates of the first row, i32: the matrix in the tensor map, the row, the column among
  /// all heads' columns, and the head.
  struct TmaCoordinates {
    Value matrix, row, column, head;
  };
  /// Rows of this sequence and head, or of a state slot. Row i starts `base + i·stride` elements
  /// into the tensor; there are `length` rows.
  struct Rows {
    Value pointer, heads = {}, base = {}, stride = {}, length = {};
    Type element = {};
    int64_t channels = 1;
    TmaCoordinates tmaOrigin = {};
  };
  /// The state slots of this sequence and head. Slot i starts at `base + i·stride` elements; there
  /// are `count` slots, and slot 0 is number `first` of the tensor.
  struct Slots {
    Value pointer, base = {}, stride = {}, first = {}, count = {};
    Type element = {};
    Vector<int64_t> shape = {};
    /// Of states that a group of query heads shares: their heads, and whether this block's is the
    /// group's first, which alone stores the state.
    Value heads = {}, isFirst = {};
  };
  struct Parameter {
    Value pointer, heads;
  };

  // TileKernel.cpp: the kernel around the program.
  void buildSignature(SizeName sizeName);
  Value takePointer(Value tensor);
  void locate();
  void locateThread(Value number);
  void locateSequence(Value sequence);
  Value locateSegment(Value number);
  Value packedOffset(Value index);
  Value packedLength(Value sequence);
  Value longestFirst(Value place);
  void placeRows(Rows &place, Value tensor);
  void placeSlots(Slots &place, Type type, bool saved);
  void takeParameters(Value sequence);
  Value ownHead(Value ownHeads);
  void describeLaunch();
  /// Whether rows after the last one may belong to another sequence or segment.
  bool hasNeighbours() { return cuPointer || program.getSegments(); }

  // TileProgram.cpp: dispatch over ops, elementwise ops.
  static bool isTile(Value value) { return mlir::isa<mlir::VectorType>(value.getType()); }
  /// How many elements of a tile a thread has in registers; 0 if the tile lies in shared memory.
  static unsigned sizeOf(Type type, tile::LayoutAttr layout);
  /// The users of the buffer of `value`. A tile in shared memory that a loop carries keeps its
  /// buffer, so users of the loop's result count.
  static Vector<Operation *> usersOfPlace(Value value);
  void findLastUses();
  void emitBlock(mlir::Block &block);
  void emit(Operation *op);
  Vector<Value> roundPairs(llvm::ArrayRef<Value> elements, Type to);
  Vector<Value> widenPairs(llvm::ArrayRef<Value> elements);
  void emitElementwise(Operation *op);
  Vector<Value> elementwise(Operation *op, llvm::ArrayRef<llvm::ArrayRef<Value>> operands,
                            unsigned count);

  // TileLoops.cpp: loops and branches.
  bool beginsWithBarrier(mlir::Block &body) const;
  /// Two buffers of one size. An iteration uses the first where the next iteration uses the second.
  using BufferPair = std::pair<SharedMemory::Range, SharedMemory::Range>;
  /// The double buffers of a loop over chunks.
  struct DoubleBuffers {
    mlir::Block *body = nullptr;
    Value isOdd, isEven; // the loop counter's parity, i32
    /// How many buffers were allocated before the loop.
    unsigned before = 0;
    Vector<BufferPair> carried, own;
    /// Tiles in `own`: their buffers stay allocated for the whole loop.
    llvm::DenseSet<Value> tiles;
  };
  bool needsDoubleBuffer(Value carried) const;
  bool isOnlyBulkStored(Value tile) const;
  std::pair<Placed, Placed> bufferPair(const SharedMemory::Range &own,
                                       const SharedMemory::Range &next, const Placed &like,
                                       Value isOdd, Value isEven);
  DoubleBuffers placeCarried(mlir::scf::ForOp op, Value counter);
  Placed allocateDoubleBuffer(Type type, tile::LayoutAttr layout, bool isMatmulOperand);
  std::array<Value, 3> boundsOf(mlir::scf::ForOp op);
  void materializeVectorsBefore(mlir::scf::ForOp loop);
  void emitFor(mlir::scf::ForOp op);
  void emitBranch(tile::Branch op);
  void bind(ValueRange values, ValueRange from);
  Vector<Value> flatten(ValueRange values);

  // TileRings.cpp: multi-stage copies of rows to shared memory.
  /// A ring in shared memory: all stages of its first tile, then all stages of the next.
  struct Ring {
    SharedMemory::Range range = {},
                        mbarriers = {}; // mbarriers only with TMA or warp specialisation
    unsigned stages = 0;
    bool usesTma = false;
    Vector<Placed> tiles = {};
    Vector<unsigned> offsets = {}, tileBytes = {}; // offset of a tile's stages, bytes of one stage
  };
  void emitMakeRing(tile::MakeRingOp op);
  void emitAcquire(tile::AcquireOp op);
  void emitFill(tile::FillOp op);
  void emitTake(tile::TakeOp op);
  unsigned groupsAfter(tile::TakeOp take) const;
  void emitRelease(tile::ReleaseOp op);
  void endRing(Value value);
  Value stageOf(const Ring &ring, Value item);
  Vector<Placed> tilesOf(const Ring &ring, Value item);
  void waitForCopies(unsigned groups);

  // TileTma.cpp: loads and stores by TMA.
  struct Copy {
    Value rows, first, channel;
    Placed tile;
  };
  /// A TMA load of one tile. `map` is the kernel argument that is the tensor map; the load is
  /// skipped unless `exists`, if not null.
  struct TmaLoad {
    Copy copy;
    unsigned map;
    Value exists;
  };
  void findMaps();
  void findTmaLoads(const llvm::DenseMap<Value, Value> &tensors);
  void findTmaStores();
  unsigned mapFor(Value rows, Value channel, Value tensor, Type tile);
  void byOneLane(Value condition, llvm::function_ref<void()> body);
  void storeByTma(const Placed &tile, const Rows &to, tile::StoreOp op);
  void awaitBulkStores(llvm::function_ref<bool(const SharedMemory::BulkStore &)> is);
  void awaitBulkStores() {
    awaitBulkStores([](auto &) { return true; });
  }
  void passByValue(mlir::gpu::GPUFuncOp function, unsigned arg);
  void makeStageMbarriers(tile::MakeRingOp op);
  void fillByTma(tile::FillOp op);
  void issueTmaLoads(llvm::ArrayRef<TmaLoad> loads, Value full, Value isPastEnd);
  void forEachTmaCopy(const Copy &copy, const TmaCoordinates &origin, Value row,
                      llvm::function_ref<void(mlir::ValueRange, Value)> visit);
  void copyRagged(const Copy &copy);
  void copyBeside(tile::FillOp op, llvm::ArrayRef<Copy> vectors, Value isTaken);

  // TilePartitions.cpp: warp specialisation.
  unsigned countWarps();
  void emitWarpSpecialize(tile::WarpSpecializeOp op);
  void emitPartition(tile::PartitionOp partition);
  void makeMbarriers(tile::MakeRingOp op);
  void initializeMbarriers(tile::MakeRingOp op);
  Value fullOf(const Ring &ring, Value stage);
  Value emptyOf(const Ring &ring, Value stage);
  Value parityOf(const Ring &ring, Value item);
  void waitForPhase(Value mbarrier, Value parity);
  void waitForEmpty(const Ring &ring, Value item);
  void arriveAtEmpty(tile::ReleaseOp op);
  bool hasArrived(Value tile);
  void releaseAwaited();
  bool isRead(const SharedMemory::Range &range);

  // TileMemory.cpp: global and shared memory.
  /// One or two elements that are adjacent in memory: their slots in the thread's elements, their
  /// distance in elements from the row's offset, and whether they exist.
  struct Run {
    Vector<unsigned> slots;
    int64_t offset;
    Value valid;
  };
  struct RowRuns {
    Value valid, offset;
    Vector<Run> runs;
  };
  Vector<RowRuns> runsOf(Type type, tile::LayoutAttr layout, const TileGrid &grid);
  TileGrid gridOf(const Rows &place, Value first, Value channel, mlir::VectorType type);
  TileGrid gridOf(const Slots &place, ValueRange offsets, Type part);
  Value slotBase(const Slots &place, Value index);
  Placed loadFrom(Type type, tile::LayoutAttr layout, const TileGrid &grid, Value base,
                  Type element);
  void storeTo(const Placed &tile, const TileGrid &grid, Value base, Type element);
  RowSpan rowsWithin(const Rows &place, Value first, int64_t rows);
  void copyRows(Value source, Value first, Value channel, const Placed &tile);
  void emitLoad(tile::LoadOp op);
  void emitStore(tile::StoreOp op);
  void emitSlotRows(tile::SlotRowsOp op);
  void emitLoadSlot(tile::LoadSlotOp op);
  void emitStoreSlot(tile::StoreSlotOp op);
  Placed newShared(Type type, tile::LayoutAttr layout = {}, bool isMatmulOperand = true);
  /// The same for `value`. If a loop carries `value`, its existing buffer.
  Placed sharedFor(Value value, tile::LayoutAttr layout, bool isMatmulOperand = true);
  const Placed *carriedPlace(Value value);
  /// Whether a tile that avoids recently used ranges still fits into `freeBytes`.
  bool fitsFreely(Type type, tile::LayoutAttr layout) const {
    return fitsFreely(type, layout, justUsed());
  }
  bool fitsFreely(Type type, tile::LayoutAttr layout,
                  mlir::ArrayRef<SharedMemory::Range> avoided) const {
    return memory.find(sharedBytes(type, layout), sharedAlignment(layout), avoided).end <=
           freeBytes;
  }
  /// Ranges accessed since the last barrier, or read by outstanding matmuls.
  Vector<SharedMemory::Range> justUsed() const;
  /// Ranges that a new tile should not overlap.
  Vector<SharedMemory::Range> avoidedFor(Type type, tile::LayoutAttr layout) const;
  /// Whether matmuls or TMA stores read `tile` from shared memory.
  bool isMatmulOperand(Value tile) const;
  void storeSwizzled(const Placed &tile, const Rows &to, tile::StoreOp op);
  Value barrier(Value everywhere = {});
  void fenceForMatmuls();
  void beforeRead(llvm::ArrayRef<SharedMemory::Range> ranges);
  void awaitReaders(const SharedMemory::Range &range);
  void makeWritable(const SharedMemory::Range &range);
  void beforeWrite(const SharedMemory::Range &range);
  Value sharedAt(const SharedMemory::Range &range);

  // TileSwizzle.cpp: 128-byte-swizzled tiles.
  SwizzledAddress swizzledAddress(const Placed &shared, Value row, Value segment,
                                  bool isAnywhere = false);
  /// The address of one element.
  Value swizzledElement(const Placed &shared, Value row, Value column);
  void writeSwizzled(const Placed &tile, const Placed &shared);
  Placed fragmentsFromSwizzled(const Placed &shared, tile::LayoutAttr layout);
  Vector<Value> blockFromSwizzled(Type element, Value address, bool transposes);
  void forEachSwizzledBlock(const Fragments &f, const Placed &shared,
                            llvm::function_ref<void(unsigned, unsigned, Value)> visit);
  Value loadMatrices(Value address, bool transposes);

  // TileConvert.cpp: layout conversion.
  void emitConvert(tile::ConvertOp op);
  void writeLanes(const Placed &vector, const Placed &shared);
  void writeFragments(const Placed &tile, const Placed &shared);
  Placed fragmentsFrom(const Placed &shared, tile::LayoutAttr layout);
  void writeRows(const Placed &vector, const Placed &shared);
  Placed lanesFrom(const Placed &shared, Value row);
  /// The same in `lanes` or `rows` layout.
  Placed vectorFrom(const Placed &shared, Value row, tile::LayoutAttr layout);
  Placed repeated(const Placed &tile, tile::LayoutAttr layout);
  Value fragmentsAddress(const Fragments &f, const Placed &shared);
  Value partRow(const Fragments &f);
  Value partColumn(const Fragments &f);
  Value firstRowOf(const Fragments &f);
  Value firstColumnOf(const Fragments &f);

  // TileSolve.cpp: the parts of a solve that are no matmuls.
  void emitInvertDiagonal(tile::InvertDiagonalOp op);

  // TileMasks.cpp: masks by position.
  void maskSide(Placed &tile, bool upper, bool strict, Value otherwise);
  void emitMask(tile::MaskOp op);
  void emitWindow(tile::WindowOp op);
  Value isWithin(Value from, Value to, int64_t size, Value first, int64_t offset);

  // TileVectors.cpp: vectors, broadcasts and reductions.
  void emitBroadcast(tile::BroadcastOp op);
  void findSummedInParts();
  void emitSum(tile::SumOp op);
  struct SummedParts;
  void finishSum(Value sum);
  void finishSums();
  void emitRangeGuard(tile::RangeGuardOp op);
  void emitExtract(mlir::vector::ExtractOp op);
  void emitInsert(mlir::vector::InsertOp op);
  Placed cumsumOfLanes(tile::CumsumOp op);
  Placed totalOfLanes(const Placed &tile);
  Placed shareRow(const Placed &tile, Value row, Value carried = {});
  Placed storedColumn(const Placed &tile, Value column, tile::LayoutAttr layout);
  Value positionOf(mlir::OpFoldResult position);
  Vector<Value> slicesOf(const Placed &vector, const Fragments &f, unsigned dim);
  Value pick(llvm::ArrayRef<Value> elements, Value index);
  Value elementAt(const Placed &vector, Value start, Value offset);
  Value shuffle(Value value, Value by, mlir::gpu::ShuffleMode mode);
  Value fromOwnMember(Value value, unsigned group);
  std::optional<Value> sumOverGroups(llvm::SmallVector<Value> &partial,
                                     llvm::function_ref<Value(Value, Value)> plus);
  Value butterfly(Value value, unsigned from, unsigned to,
                  llvm::function_ref<Value(Value, Value)> combine);

  // TileDot.cpp: matmuls, and cumsums as matmuls.
  void emitDot(tile::DotOp op);
  void emitCumsum(tile::CumsumOp op);
  void emitTransposedCumsum(tile::CumsumOp op);
  const Placed *summedInShared(tile::CumsumOp op);
  Placed splitTerm(Placed &rest, Type type);
  struct LdmatrixOperand;
  struct DotOperands;
  LdmatrixOperand ldmatrixOperand(const Placed &tile, bool isLeft, bool rowsAcross, Value part,
                                  int64_t partSize);
  DotOperands operandsOf(tile::DotOp op, const Fragments &f);
  Vector<Value> loadBlock(const LdmatrixOperand &operand, int64_t across, int64_t along);
  Vector<Value> wordsOf(const Placed &tile, unsigned m, unsigned block);
  Vector<Value> zeroBeyond(Vector<Value> words, int64_t size, Value part, int64_t offset,
                           llvm::ArrayRef<int64_t> range);
  void multiply(Vector<Value> &acc, const Fragments &f, unsigned m, unsigned pair,
                llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs, Type element);
  struct Triangle;
  Triangle triangleOf(tile::CumsumOp op, Type type);
  void writeTriangles();
  Vector<Value> wordsOf(const Triangle &triangle, const Fragments &f, unsigned m, int64_t along);
  void addSums(Placed &result, const Placed &term, const Triangle &triangle);

  // TileSplitDot.cpp: matmuls of f32 operands in bf16 terms.
  struct SplitOperand;
  SplitOperand splitOperand(const Placed &tile, bool rowsAcross, bool inPairs, Value part);
  Vector<Vector<Value>> loadTerms(const SplitOperand &operand, bool isLeft, int64_t across,
                                  Value along, unsigned count);
  void emitSplitDot(tile::DotOp op, const DotOperands &operands);

  // TileWarpgroup.cpp: asynchronous matmuls by warpgroups.
  bool isForWarpgroups(tile::DotOp op, const DotOperands &operands);
  Vector<Value> materializeHere(llvm::ArrayRef<Value> elements);
  void emitWarpgroupDot(tile::DotOp op, const DotOperands &operands);
  struct InFlight;
  Placed accumulatorsFor(tile::DotOp op, InFlight &matmul);
  Vector<Value> issueMatmul(Placed &result, bool fromZero, std::pair<int64_t, int64_t> range,
                            const Placed &right, bool rightAcross, const Placed *left,
                            bool leftAcross,
                            llvm::function_ref<Vector<Value>(unsigned, unsigned)> words,
                            llvm::ArrayRef<int64_t> columns = {});
  Value descriptorOf(const Placed &tile, bool rowsAcross, Value first);
  Value callAsm(const std::string &text, const std::string &constraints, ValueRange operands,
                Type result);
  void awaitGroup(unsigned group);
  void awaitAll();

  void findLongBlocks();
  Value forPowersOfTwo(Value x);
  Value exponential(Operation *op, Value x);
  Value exponentialByPolynomial(Value x);
  /// e^x or 2^x of `count` elements, as `op` says. A single x stands for all elements.
  Vector<Value> exponentials(Operation *op, mlir::ArrayRef<Value> x, unsigned count);
  /// The emitted tile of `value`. Waits for its matmul and finishes its reduction first.
  Placed &placed(Value value);
  static Value element(const Placed &tile, unsigned i) {
    return tile.elements.size() == 1 ? tile.elements.front() : tile.elements[i];
  }
  Value scalar(Value value) { return scalars.lookup(value); }
  Value wideIndex(Value index);
  Value narrowIndex(Value index);
  Value emitIndex(mlir::Operation *op);

  tile::ProgramOp program;
  llvm::StringRef name;
  KernelBuilder b;
  unsigned freeBytes;
  bool doubleBuffered;
  LoopEnds &loopEnds;
  Kernel kernel;

  llvm::DenseMap<Value, Rows> rows;
  llvm::DenseMap<Value, Slots> slots;
  Vector<Parameter> parameters;
  llvm::DenseMap<Value, Vector<Value>> pointers;
  /// The head to read in tensors with fewer heads, by their number of heads.
  llvm::DenseMap<Value, Value> sharedHeads;
  Value cuPointer, totalSteps, heads, sequences;        // i64; the last where packed
  Value segmentRows;                                    // i64; null without segments
  Value thread, lane, warp, group, member, head, slice; // i32; lane = 4·group + member
  Value sequenceIndex, stateIndex, firstRow, length;    // i64; of a segment where there are any
  /// The sequence's length and first row among all, and the position there of a segment's first.
  Value sequenceLength, sequenceFirst, firstPosition;
  unsigned warps = 0;
  /// The number of threads that run the current code, and the id of their named barrier.
  unsigned workers = 0, namedBarrier = 0;
  bool warpgroups = false;
  /// Whether a block has many matmuls. Registers are short then, so e^x, e^-x and the range guard
  /// share x·log2 e instead of x. Bulk stores are waited for later.
  bool isLong = false;
  Value warpgroup; // index of this warp's warpgroup
  /// Whether the current code is inside an `if` with an `else`.
  bool inBranch = false;

  /// Outstanding wgmma matmuls, oldest first, with the shared memory and the registers of operand A
  /// that each reads.
  struct InFlight {
    Value matmul;
    unsigned group;
    Vector<SharedMemory::Range> reads;
    Vector<Value> registers = {};
    /// The columns of accumulators that it adds to; empty if all.
    llvm::ArrayRef<int64_t> columns = {};
  };
  Vector<InFlight> inFlight;
  /// Loads from shared memory since the last barrier: the fragments that they fill, if any, and the
  /// range.
  Vector<std::pair<Value, SharedMemory::Range>> loadsSinceBarrier;
  unsigned groupsIssued = 0;

  /// Above the diagonal; strict; bf16; number of rows; the row that is subtracted, or -1.
  using TriangleKey = std::tuple<bool, bool, bool, int64_t, int64_t>;
  std::map<TriangleKey, Placed> triangles;
  static TriangleKey triangleKey(tile::CumsumOp op, Type element);

  mlir::LLVM::GlobalOp shared;
  SharedMemory memory;
  /// Ranges that bulk stores have read from so far; ranges that were allocated for tiles.
  Vector<SharedMemory::Range> bulkStoredFrom, allocatedRanges;
  /// The next iteration's buffer of a double-buffered loop argument.
  llvm::DenseMap<Value, Placed> nextPlaces;
  /// The double buffers of the innermost loop.
  DoubleBuffers buffers;
  /// The kernel's values for the program's scalars, and for its tiles.
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Placed> tiles;
  /// Reductions whose per-warp partial sums lie in shared memory. They are added at the first use,
  /// where a barrier may have passed already.
  struct PartialSum {
    Placed scratch;
    int64_t parts;
  };
  llvm::MapVector<Value, PartialSum> partialSums;
  /// Elementwise ops on swizzled tiles whose only use is a reduction. They are emitted block by
  /// block with the reduction, so that no whole tile of theirs is live in registers.
  llvm::DenseMap<Operation *, tile::SumOp> summedInParts;
  /// The values whose last use is the op, or lies in its regions.
  llvm::DenseMap<Operation *, Vector<Value>> lastUses;
  llvm::DenseMap<Value, Ring> rings;
  /// The rings that are filled by TMA.
  llvm::DenseSet<Value> tmaRings;
  /// The stores that use TMA, with the kernel argument that is their tensor map.
  llvm::DenseMap<Operation *, unsigned> tmaStores;
  /// The kernel arguments that are tensor maps, by the program's argument and what is copied at
  /// once: rows and 64-column blocks, or no blocks for one block of a head.
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, int64_t>>, unsigned> maps;
  Vector<tile::ReleaseOp> pendingReleases;
};

/// Checks that the warps of the program's partitions fit a block and its layouts.
mlir::LogicalResult checkPartitions(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEEMITTER_H
