//===- TileEmitter.h - state shared by the emission of a kernel ---*- C++ -*-===//
//
// TileEmitter turns a planned block program into a gpu.func, op by op, in program order.
// The plan says where tiles lie in shared memory, and has all barriers, fences and waits
// (ejk-plan-memory). Each section of the class is implemented in the file that its comment
// names.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_EMIT_TILEEMITTER_H
#define EJK_LOWERING_EMIT_TILEEMITTER_H

#include "dialect/ejk/EjkShifts.h"
#include "dialect/tile/Branch.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/kernels/Neighbours.h"
#include "lowering/kernels/Segments.h"
#include "lowering/layout/MatmulOperands.h"
#include "lowering/memory/RingLayout.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace ejk {

/// Bytes of a segment, which a thread copies at once.
constexpr int64_t kSegmentBytes = 16;

/// A tile in the kernel: a thread's elements, or its address in shared memory.
struct Placed {
  tile::LayoutAttr layout;
  /// This thread's elements, in the order of TileLayout.h; one element if the tile is uniform.
  llvm::SmallVector<mlir::Value> elements;

  // In shared memory:
  mlir::Value address;       // of the first element
  unsigned pitch = 0;        // bytes between rows, if it is not swizzled
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

/// Where the current thread is, all i32.
struct ThreadPlace {
  mlir::Value thread, lane, warp; // in the block, or in a partition
  mlir::Value group, member;      // lane = 4·group + member
  mlir::Value warpgroup;          // index of this warp's warpgroup
};

class TileEmitter : ThreadPlace {
public:
  TileEmitter(tile::ProgramOp program, llvm::StringRef name)
      : program(program), name(name), b(mlir::OpBuilder(program.getContext()), program.getLoc()) {}
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
    /// Of rows of another step: the first one that the tensor has, of those before `length`. With a
    /// halo, all `allRows` rows exist; the others are at their place from `haloBase` on, dense.
    Value begin = {}, allRows = {}, haloPointer = {}, haloBase = {}, haloStride = {};
    Value givenStride = {}; // the caller's, where it decides, as i32
    Value addsTerm = {};    // of rows that heads sum: whether another head has stored its own
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
    /// Of initial states that may be zeros, which no memory holds: whether these are not.
    Value areGiven = {};
  };
  struct Parameter {
    Value pointer, heads;
  };

  // TileKernel.cpp: the kernel around the program.
  void buildSignature(SizeName sizeName);
  Value takePointer(Value tensor);
  /// The dimensions of a parameter that are no part of the step's value, of its argument `arg`.
  static unsigned prefixRank(Value parameter, Value arg);
  void describeLaunch();

  // TilePlace.cpp: which rows and states the block has.
  void locate();
  void locateThread(Value number);
  void locateSequence(Value sequence);
  Value locateSegment(Value number);
  Value packedOffset(Value index);
  Value packedLength(Value sequence);
  Value longestFirst(Value place, Value areRanked = {});
  void placeRows(Rows &place, Value tensor);
  void placeShifted(Rows &place, ShiftOp shift);
  void placeSlots(Slots &place, Type type, bool saved);
  void takeParameters(Value sequence);
  Value ownHead(Value ownHeads);
  /// Whether TMA might load rows of another sequence or segment, or of those before the first.
  bool hasNeighbours(const Rows &place) { return place.begin || ejk::hasNeighbours(program); }

  // TileProgram.cpp: dispatch over ops, elementwise ops.
  static bool isTile(Value value) { return mlir::isa<mlir::VectorType>(value.getType()); }
  void emitBlock(mlir::Block &block);
  void emit(Operation *op);
  /// A barrier, a fence or a wait.
  void emitOrdering(Operation *op);
  /// The fences and waits right before `guard`. They are issued after the threads' comparisons, so
  /// that these do not wait.
  static Vector<Operation *> orderingBefore(tile::RangeGuardOp guard);
  Vector<Value> roundPairs(llvm::ArrayRef<Value> elements, Type to);
  Vector<Value> widenPairs(llvm::ArrayRef<Value> elements);
  void emitElementwise(Operation *op);
  Vector<Value> elementwise(Operation *op, llvm::ArrayRef<llvm::ArrayRef<Value>> operands,
                            unsigned count);

  // TileLoops.cpp: loops and branches.
  /// The counter's parity in a loop that has double buffers, i32.
  struct Parity {
    Value isOdd, isEven;
  };
  Parity parityOfCounter(Value counter);
  Placed inBuffer(Type type, tile::LayoutAttr layout, const Parity &parity);
  void placeCarried(mlir::scf::ForOp op, Value counter);
  std::array<Value, 3> boundsOf(mlir::scf::ForOp op);
  void materializeVectorsBefore(mlir::scf::ForOp loop);
  void emitFor(mlir::scf::ForOp op);
  void emitBranch(tile::Branch op);
  void bind(ValueRange values, ValueRange from);
  Vector<Value> flatten(ValueRange values);

  // TileRings.cpp: multi-stage copies of rows to shared memory.
  struct Ring {
    RingLayout layout;
    int64_t place, mbarriers; // mbarriers: -1 if it has none
    bool usesTma, needsFence;
    bool hasMbarriers() const { return mbarriers >= 0; }
  };
  void emitMakeRing(tile::MakeRingOp op);
  void emitAcquire(tile::AcquireOp op);
  void emitFill(tile::FillOp op);
  void emitPut(tile::PutOp op);
  void emitTake(tile::TakeOp op);
  void emitRelease(tile::ReleaseOp op);
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
  void waitForBulkStores(unsigned groups);
  void passByValue(mlir::gpu::GPUFuncOp function, unsigned arg);
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
  void initializeMbarriers(tile::MakeRingOp op);
  Value fullOf(const Ring &ring, Value stage);
  Value emptyOf(const Ring &ring, Value stage);
  Value parityOf(const Ring &ring, Value item);
  void waitForPhase(Value mbarrier, Value parity);
  void waitForEmpty(const Ring &ring, Value item);

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
    Value base = {}; // null for the base that all rows have
  };
  Vector<RowRuns> runsOf(Type type, tile::LayoutAttr layout, const TileGrid &grid);
  TileGrid gridOf(const Rows &place, Value first, Value channel, mlir::VectorType type);
  TileGrid gridOf(const Slots &place, ValueRange offsets, Type part);
  Value slotBase(const Slots &place, Value index);
  std::pair<Value, Value> slotElement(const Slots &place, Value index, ValueRange offsets);
  Placed loadFrom(Type type, tile::LayoutAttr layout, const TileGrid &grid, Value base,
                  Type element);
  void storeTo(const Placed &tile, const TileGrid &grid, Value base, Type element, Value adds = {});
  Value strideOf(const Rows &place);
  RowSpan rowsWithin(const Rows &place, Value first, int64_t rows, bool withHalo = false);
  void copyRows(Value source, Value first, Value channel, const Placed &tile);
  void emitPrefetch(tile::PrefetchOp op);
  void emitLoad(tile::LoadOp op);
  void emitStore(tile::StoreOp op);
  void emitSlotRows(tile::SlotRowsOp op);
  void emitLoadSlot(tile::LoadSlotOp op);
  void emitStoreSlot(tile::StoreSlotOp op);
  /// The tile of `value` in its place in shared memory. If a loop carries `value`, the next
  /// iteration's place.
  Placed sharedFor(Value value);
  const Placed *carriedPlace(Value value);
  void storeSwizzled(const Placed &tile, const Rows &to, tile::StoreOp op);
  Value barrier(Value everywhere = {});
  void fenceForMatmuls();
  Value sharedAt(int64_t place);

  // TileTurns.cpp: sums over the heads of a group.
  void locateTurns();
  Value isSkipped();
  void emitAwaitTurn(tile::AwaitTurnOp op);
  void emitPassTurn(tile::PassTurnOp op);
  void storeOrAdd(llvm::ArrayRef<Value> values, Value start, int64_t offset, Value adds);

  // TileSwizzle.cpp: 128-byte-swizzled tiles.
  SwizzledAddress swizzledAddress(const Placed &shared, Value row, Value segment,
                                  bool isAnywhere = false);
  /// The address of one element.
  Value swizzledElement(const Placed &shared, Value row, Value column);
  void writeSwizzled(const Placed &tile, const Placed &shared);
  void loadFromSwizzled(const Fragments &f, const Placed &shared, Placed &tile);
  void loadFromWords(const Fragments &f, const Placed &shared, Placed &tile);
  Vector<Value> blockFromSwizzled(Type element, Value address, bool transposes);
  void forEachSwizzledBlock(const Fragments &f, const Placed &shared,
                            llvm::function_ref<void(unsigned, unsigned, Value)> visit);
  Value loadMatrices(Value address, bool transposes);

  // TileConvert.cpp: layout conversion.
  void emitConvert(tile::ConvertOp op);
  void writeTile(Placed tile, const Placed &shared);
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
  void emitMergeInverses(tile::MergeInversesOp op);
  void copyAround(const Placed &from, const Placed &to, Value number, int64_t threads,
                  int64_t block, bool isBelow);

  // TileMasks.cpp: masks by position.
  void maskSide(Placed &tile, bool upper, bool strict, Value otherwise);
  void emitMask(tile::MaskOp op);
  void emitWindow(tile::WindowOp op);
  Value isWithin(Value from, Value to, int64_t size, Value first, int64_t offset);

  // TileSums.cpp: reductions, running sums along a vector, and guards.
  void emitSum(Operation *op);
  void storePartialSums(tile::PartialSumOp op, const Fragments &f, bool overColumns,
                        Vector<Value> partial, std::optional<Value> which);
  void emitAddParts(tile::AddPartsOp op);
  struct SummedParts;
  std::optional<Value> sumOverGroups(llvm::SmallVector<Value> &partial,
                                     llvm::function_ref<Value(Value, Value)> plus);
  void emitRangeGuard(tile::RangeGuardOp op);
  Placed cumsumOfLanes(tile::CumsumOp op);
  Placed totalOfLanes(const Placed &tile);

  // TileVectors.cpp: between lanes; vectors, broadcasts and rows of matrices.
  void emitBroadcast(tile::BroadcastOp op);
  void emitExtract(mlir::vector::ExtractOp op);
  void emitInsert(mlir::vector::InsertOp op);
  Placed shareRow(const Placed &tile, Value row, Value result);
  Placed storedColumn(const Placed &tile, Value column, tile::LayoutAttr layout);
  Value positionOf(mlir::OpFoldResult position);
  Vector<Value> slicesOf(const Placed &vector, const Fragments &f, unsigned dim);
  Value pick(llvm::ArrayRef<Value> elements, Value index);
  Value elementAt(const Placed &vector, Value start, Value offset);
  Value shuffle(Value value, Value by, mlir::gpu::ShuffleMode mode);
  Value fromOwnMember(Value value, unsigned group);
  Value butterfly(Value value, unsigned from, unsigned to,
                  llvm::function_ref<Value(Value, Value)> combine);

  // TileDot.cpp: matmuls, and cumsums as matmuls.
  void emitDot(tile::DotOp op);
  void emitCumsum(tile::CumsumOp op);
  void emitAddCumsum(tile::AddCumsumOp op);
  void emitSplitTerm(tile::SplitTermOp op);
  Placed splitTerm(Placed &rest, Type type);
  struct LdmatrixOperand;
  LdmatrixOperand ldmatrixOperand(const Placed &tile, bool isLeft, bool rowsAcross, Value part,
                                  int64_t partSize);
  Vector<Value> loadBlock(const LdmatrixOperand &operand, int64_t across, int64_t along);
  Vector<Value> wordsOf(const Placed &tile, unsigned m, unsigned block);
  Value hasRowsOf(llvm::ArrayRef<int64_t> range, int64_t size, Value part, int64_t offset);
  Vector<Value> zeroBeyond(Vector<Value> words, int64_t size, Value part, int64_t offset,
                           llvm::ArrayRef<int64_t> range);
  void multiply(Vector<Value> &acc, const Fragments &f, unsigned m, unsigned pair,
                llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs, Type element);
  struct Triangle;
  Triangle triangleOf(tile::AddCumsumOp op);
  void emitTriangle(tile::TriangleOp op);
  Vector<Value> wordsOf(const Triangle &triangle, const Fragments &f, unsigned m, int64_t along);
  void addSums(Placed &result, const Placed &term, const Triangle &triangle);

  // TileSplitDot.cpp: matmuls of f32 operands in bf16 terms.
  struct SplitOperand;
  SplitOperand splitOperand(const Placed &tile, bool rowsAcross, bool inPairs, Value part);
  Vector<Vector<Value>> loadTerms(const SplitOperand &operand, bool isLeft, int64_t across,
                                  Value along, unsigned count);
  void emitSplitDot(tile::DotOp op, const MatmulOperands &operands);

  // TileWarpgroup.cpp: asynchronous matmuls by warpgroups.
  Vector<Value> materializeHere(llvm::ArrayRef<Value> elements);
  void emitWarpgroupDot(tile::DotOp op, const MatmulOperands &operands);
  struct InFlight;
  Placed accumulatorsFor(Value acc, tile::LayoutAttr layout, InFlight &matmul);
  Vector<Value> issueMatmul(Placed &result, bool fromZero, std::pair<int64_t, int64_t> range,
                            const Placed &right, bool rightAcross, const Placed *left,
                            bool leftAcross,
                            llvm::function_ref<Vector<Value>(unsigned, unsigned)> words,
                            llvm::ArrayRef<int64_t> columns = {});
  Value descriptorOf(const Placed &tile, bool rowsAcross, Value first);
  Value callAsm(const std::string &text, const std::string &constraints, ValueRange operands,
                Type result);
  void waitForMatmuls(unsigned pending);

  void findLongBlocks();
  Value forPowersOfTwo(Value x);
  Value exponential(Operation *op, Value x);
  Value exponentialByPolynomial(Value x);
  /// e^x or 2^x of `count` elements, as `op` says. A single x stands for all elements.
  Vector<Value> exponentials(Operation *op, mlir::ArrayRef<Value> x, unsigned count);
  /// The emitted tile of `value`.
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
  Kernel kernel;

  llvm::DenseMap<Value, Rows> rows;
  llvm::DenseMap<Value, Slots> slots;
  Vector<Parameter> parameters;
  llvm::DenseMap<Value, Vector<Value>> pointers;
  /// The head to read in tensors with fewer heads, by their number of heads.
  llvm::DenseMap<Value, Value> sharedHeads;
  /// The first row that exists and the end of those that do, by shift.
  llvm::DenseMap<int64_t, std::pair<Value, Value>> shiftedRows;
  Value cuPointer, totalSteps, heads, sequences;        // i64; the last where packed
  Value turnsPointer, ownTurns, followsHead;            // null where heads take no turns
  Value rememberedPointer;                              // null where rows are left out of all segments or none
  Value skippedPointer;                                 // null where the program has none
  SegmentSizes segmentSizes;                            // none without segments
  Value head, slice;                                    // i32
  Value sequenceIndex, stateIndex, firstRow, length;    // i64; of a segment where there are any
  /// The sequence's length and first row among all, and the position there of a segment's first.
  Value sequenceLength, sequenceFirst, firstPosition;
  unsigned warps = 0;
  /// The number of threads that run the current code, and the id of their named barrier.
  unsigned workers = 0, namedBarrier = 0;
  bool warpgroups = false;
  /// Whether a block has many matmuls. Registers are short then, so e^x, e^-x and the range guard
  /// share x·log2 e instead of x.
  bool isLong = false;
  /// Whether what a loop computes from its threads' places is computed in it, for want of
  /// registers around it.
  bool locatesInLoops = false;
  /// Whether the current code is inside an `if` with an `else`.
  bool inBranch = false;

  /// Outstanding wgmma matmuls, oldest first, with the registers of operand A that each reads.
  struct InFlight {
    Value matmul;
    unsigned group;
    Vector<Value> registers = {};
    /// The columns of accumulators that it adds to; empty if all.
    llvm::ArrayRef<int64_t> columns = {};
  };
  Vector<InFlight> inFlight;
  unsigned groupsIssued = 0;

  mlir::LLVM::GlobalOp shared;
  /// The next iteration's buffer of a double-buffered loop argument.
  llvm::DenseMap<Value, Placed> nextPlaces;
  /// Of the innermost loop.
  Parity parity;
  /// The kernel's values for the program's scalars, and for its tiles.
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Placed> tiles;
  llvm::DenseMap<Operation *, Operation *> summedInParts;
  llvm::DenseMap<Value, Ring> rings;
  /// The stores that use TMA, with the kernel argument that is their tensor map.
  llvm::DenseMap<Operation *, unsigned> tmaStores;
  /// The kernel arguments that are tensor maps, by the program's argument and what is copied at
  /// once: rows and 64-column blocks, or no blocks for one block of a head.
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, int64_t>>, unsigned> maps;
};

/// Checks that the warps of the program's partitions fit a block and its layouts.
mlir::LogicalResult checkPartitions(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEEMITTER_H
