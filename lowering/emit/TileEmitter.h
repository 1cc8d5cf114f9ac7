//===- TileEmitter.h - the parts of a block program's kernel share -*- C++ -*-===//
#ifndef EJK_LOWERING_EMIT_TILEEMITTER_H
#define EJK_LOWERING_EMIT_TILEEMITTER_H

#include "lowering/memory/SharedMemory.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/emit/TileMemory.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace ejk {

/// A tile as one thread sees it: what it holds, or where in shared memory all
/// of it lies.
struct Placed {
  tile::LayoutAttr layout;
  /// Scalars, in the order of TileLayout.h; one where the tile is uniform.
  llvm::SmallVector<mlir::Value> elements;

  // In shared memory:
  mlir::Value address;       // of the first element
  unsigned pitch = 0;        // bytes between rows, where it does not lie in panels
  SharedMemory::Range range; // empty where the loop around orders accesses
  mlir::Type type;           // of the tile

  /// Of a product still being taken: the number of its group; what is awaited has none.
  unsigned group = 0;
};

/// A place in panels, of a row and a piece of 16 bytes that a lane names, from which
/// others are reached whose distance in rows is a multiple of 8, and in pieces one
/// whose bits the lane's own piece does not have; or any, from `anywhere`.
struct PanelPlace {
  mlir::Value row;   // the address of the row's panel; of its first one, from anywhere
  mlir::Value piece; // in it, in bytes
  int64_t panelBytes = 0;
  mlir::Value anywhere; // the piece's number, where it is any
  mlir::Value pattern;  // then, what the numbers of the row's pieces are xored with
  mlir::Value at(KernelBuilder &b, int64_t rows, int64_t pieces) const;
};

/// How a column's number compares with the row's on one side of the diagonal.
mlir::arith::CmpIPredicate sideOfDiagonal(bool upper, bool strict);

/// What an iteration of each loop leaves touched in shared memory since its last barrier.
/// Found by making a kernel, which has a barrier at the head of each loop that is not known,
/// and waits for all that is sent at its end; a second one then has the barriers that are needed.
struct LoopEnds {
  llvm::DenseMap<mlir::Operation *, SharedMemory::Pending> known, found;
  /// Whether a loop that was known left more than that.
  bool wrong = false;
  /// Whether places are taken as if nothing was known.
  bool areInPlace = false;
  /// Whether loops that are known have a barrier at their heads, too: what is known is what was
  /// sent.
  bool haveBarriers = false;
};

class TileEmitter {
public:
  /// Up to `freeBytes` of shared memory are used for fewer barriers: what was just used is
  /// not taken for something else, and the parts of f32 running sums lie there at a time. Factors
  /// that a loop carries may lie in two places by turns (`placesByTurns`).
  TileEmitter(tile::ProgramOp program, llvm::StringRef name, mlir::OpBuilder builder,
              unsigned freeBytes, bool placesByTurns, LoopEnds &loopEnds)
      : program(program), name(name), b(builder, program.getLoc()), freeBytes(freeBytes),
        placesByTurns(placesByTurns), loopEnds(loopEnds) {}
  Kernel run(mlir::gpu::GPUModuleOp module, SizeName sizeName);

private:
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  using Type = mlir::Type;
  using Operation = mlir::Operation;
  template <typename T> using Vector = llvm::SmallVector<T>;

  /// Where rows begin in their tensor's map, i32: in which of several matrices of rows, and
  /// from which row and column on.
  struct PlaceInMap {
    Value matrix, row, column;
  };
  /// The rows of this sequence and head, or of a cell: row i starts at base + i·stride
  /// elements, and there are `length`.
  struct Rows {
    Value pointer, heads = {}, base = {}, stride = {}, length = {};
    Type element = {};
    int64_t channels = 1;
    PlaceInMap inMap = {};
  };
  /// Its cells: cell i starts at base + i·stride elements, there are `count`, and the first
  /// is the tensor's number `first`.
  struct Cells {
    Value pointer, base = {}, stride = {}, first = {}, count = {};
    Type element = {};
    Vector<int64_t> shape = {};
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
  Value packedOffset(Value index);
  Value packedLength(Value sequence);
  Value longestFirst(Value place);
  void placeRows(Rows &place, Value tensor);
  void placeCells(Cells &place, Type type, bool saved);
  void takeParameters(Value sequence);
  Value ownHead(Value ownHeads);
  void describeLaunch();

  // TileProgram.cpp: its ops, and what is of elements.
  static bool isTile(Value value) { return mlir::isa<mlir::VectorType>(value.getType()); }
  /// How many scalars a thread holds of a tile; of one in shared memory none, for no value moves
  /// it.
  static unsigned sizeOf(Type type, tile::LayoutAttr layout);
  /// Who uses what lies where `value` does: what a loop carries stays where it starts.
  static Vector<Operation *> usersOfPlace(Value value);
  void findLastUses();
  void emitBlock(mlir::Block &block);
  void emit(Operation *op);
  Vector<Value> roundPairs(llvm::ArrayRef<Value> elements, Type to);
  Vector<Value> widenPairs(llvm::ArrayRef<Value> elements);
  void emitElementwise(Operation *op);
  Vector<Value> elementwise(Operation *op, llvm::ArrayRef<llvm::ArrayRef<Value>> operands,
                            unsigned count);

  // TileLoops.cpp: its loops and branches.
  bool beginsWithBarrier(mlir::Block &body) const;
  /// Places of one size: what an iteration has in the first, the next one has in the second.
  using Turn = std::pair<SharedMemory::Range, SharedMemory::Range>;
  /// Of a loop over chunks with places by turns: what says whose turn it is.
  struct Turns {
    mlir::Block *body = nullptr;
    Value isOdd, isEven; // its counter, i32
    /// How many places had been handed out in front of it.
    unsigned before = 0;
    Vector<Turn> carried, own;
    /// Tiles of an iteration's own, whose places stay theirs for the whole loop.
    llvm::DenseSet<Value> tiles;
  };
  bool mayTakeTurns(Value carried) const;
  bool isSentOnly(Value tile) const;
  std::pair<Placed, Placed> byTurns(const SharedMemory::Range &own, const SharedMemory::Range &next,
                                    const Placed &like, Value isOdd, Value isEven);
  Turns placeCarried(mlir::scf::ForOp op, Value counter);
  Placed placeByTurns(Type type, tile::LayoutAttr layout, bool isFactor);
  std::array<Value, 3> boundsOf(mlir::scf::ForOp op);
  void holdVectorsOver(mlir::scf::ForOp loop);
  void emitFor(mlir::scf::ForOp op);
  void emitIf(mlir::scf::IfOp op);
  void bind(ValueRange values, ValueRange from);
  Vector<Value> flatten(ValueRange values);

  // TileRings.cpp: rows copied ahead of their use.
  /// A ring: the stages of a tile lie one behind the other, those of the next behind them.
  struct Ring {
    SharedMemory::Range range = {}, mbarriers = {}; // the latter between roles, and for boxes
    unsigned stages = 0;
    bool inBoxes = false;
    Vector<Placed> tiles = {};
    Vector<unsigned> offsets = {}, tileBytes = {}; // of a tile's first stage, of each stage
  };
  void emitMakeRing(tile::MakeRingOp op);
  void emitAcquire(tile::AcquireOp op);
  void emitFill(tile::FillOp op);
  void emitTake(tile::TakeOp op);
  unsigned groupsBehind(tile::TakeOp take) const;
  void emitRelease(tile::ReleaseOp op);
  void endRing(Value value);
  Value stageOf(const Ring &ring, Value item);
  Vector<Placed> tilesOf(const Ring &ring, Value item);
  void waitForCopies(unsigned groups);

  // TileTma.cpp: rows that one thread has copied.
  struct Copy {
    Value rows, first, channel;
    Placed tile;
  };
  /// A copy that is made at once, by the kernel's argument `map`, where `exists`, if not null.
  struct Box {
    Copy copy;
    unsigned map;
    Value exists;
  };
  void findMaps();
  void findBoxes(const llvm::DenseMap<Value, Value> &tensors);
  void findSends();
  unsigned mapFor(Value arg, Value tensor, Type tile);
  void byOneLane(Value condition, llvm::function_ref<void()> body);
  void sendPanels(const Placed &tile, const Rows &to, tile::StoreOp op);
  void awaitSent(llvm::function_ref<bool(const SharedMemory::Sent &)> is);
  void awaitSent() {
    awaitSent([](auto &) { return true; });
  }
  void passByValue(mlir::gpu::GPUFuncOp function, unsigned arg);
  void makeStageMbarriers(tile::MakeRingOp op);
  void fillBoxes(tile::FillOp op);
  void orderBoxes(llvm::ArrayRef<Box> boxes, Value full, Value isBehind);
  void copyRagged(const Copy &copy);
  void copyBeside(tile::FillOp op, llvm::ArrayRef<Copy> vectors, Value isTaken);

  // TileWarpRoles.cpp: warps that do different things.
  unsigned countWarps();
  void emitRoles(tile::RolesOp op);
  void emitRole(tile::RoleOp role);
  void makeMbarriers(tile::MakeRingOp op);
  void initializeMbarriers(tile::MakeRingOp op);
  Value fullOf(const Ring &ring, Value stage);
  Value emptyOf(const Ring &ring, Value stage);
  Value parityOf(const Ring &ring, Value item);
  void waitForPhase(Value mbarrier, Value parity);
  void waitForEmpty(const Ring &ring, Value item);
  void arriveAtEmpty(tile::ReleaseOp op);
  bool hasCome(Value tile);
  void releaseAwaited();
  bool isRead(const SharedMemory::Range &range);

  // TileMemory.cpp: global and shared memory.
  /// One or two neighbours in memory: which they are of a thread's elements, how
  /// many elements they start behind their row's offset, and whether they exist.
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
  TileGrid gridOf(const Cells &place, ValueRange offsets, Type part);
  Value cellBase(const Cells &place, Value index);
  Placed loadFrom(Type type, tile::LayoutAttr layout, const TileGrid &grid, Value base,
                  Type element);
  void storeTo(const Placed &tile, const TileGrid &grid, Value base, Type element);
  RowSpan rowsWithin(const Rows &place, Value first, int64_t rows);
  void copyRows(Value source, Value first, Value channel, const Placed &tile);
  void emitLoad(tile::LoadOp op);
  void emitStore(tile::StoreOp op);
  void emitCellRows(tile::CellRowsOp op);
  void emitLoadCell(tile::LoadCellOp op);
  void emitStoreCell(tile::StoreCellOp op);
  Placed newShared(Type type, tile::LayoutAttr layout = {}, bool isFactor = true);
  /// The same for `value`, of that layout: where a loop carries it, in its place.
  Placed sharedFor(Value value, tile::LayoutAttr layout, bool isFactor = true);
  const Placed *carriedPlace(Value value);
  /// Whether it lies within what is used freely, where nothing was just used.
  bool fitsFreely(Type type, tile::LayoutAttr layout) const {
    return fitsFreely(type, layout, justUsed());
  }
  bool fitsFreely(Type type, tile::LayoutAttr layout,
                  mlir::ArrayRef<SharedMemory::Range> avoided) const {
    return memory.find(sharedBytes(type, layout), sharedAlignment(layout), avoided).end <=
           freeBytes;
  }
  /// Since the last barrier, or by products that are not awaited.
  Vector<SharedMemory::Range> justUsed() const;
  /// What the place for a new tile of that kind should not overlap.
  Vector<SharedMemory::Range> avoidedFor(Type type, tile::LayoutAttr layout) const;
  /// Whether products read `tile` where it lies in shared memory.
  bool isFactor(Value tile) const;
  void storePanels(const Placed &tile, const Rows &to, tile::StoreOp op);
  Value barrier(Value everywhere = {});
  void fenceForProducts();
  void beforeRead(llvm::ArrayRef<SharedMemory::Range> ranges);
  void awaitReaders(const SharedMemory::Range &range);
  void makeWritable(const SharedMemory::Range &range);
  void beforeWrite(const SharedMemory::Range &range);
  Value sharedAt(const SharedMemory::Range &range);

  // TileSwizzle.cpp: shared memory in panels.
  PanelPlace panelPlace(const Placed &shared, Value row, Value piece, bool isAnywhere = false);
  /// The address of one stored element.
  Value panelElement(const Placed &shared, Value row, Value column);
  void writePanels(const Placed &tile, const Placed &shared);
  Placed fragmentsFromPanels(const Placed &shared, tile::LayoutAttr layout);
  Vector<Value> blockFromPanels(Type element, Value address, bool transposes);
  void forEachPanelBlock(const Fragments &f, const Placed &shared,
                         llvm::function_ref<void(unsigned, unsigned, Value)> visit);
  Value loadMatrices(Value address, bool transposes);

  // TileConvert.cpp: from one layout to another.
  void emitConvert(tile::ConvertOp op);
  void writeLanes(const Placed &vector, const Placed &shared);
  void writeFragments(const Placed &tile, const Placed &shared);
  Placed fragmentsFrom(const Placed &shared, tile::LayoutAttr layout);
  void writeRows(const Placed &vector, const Placed &shared);
  Placed lanesFrom(const Placed &shared, Value row);
  /// The same over lanes or as rows lie.
  Placed vectorFrom(const Placed &shared, Value row, tile::LayoutAttr layout);
  Placed repeated(const Placed &tile, tile::LayoutAttr layout);
  Value fragmentsAddress(const Fragments &f, const Placed &shared);
  Value partRow(const Fragments &f);
  Value partColumn(const Fragments &f);
  /// Row and column of this thread's first element of a matrix.
  Value firstRowOf(const Fragments &f);
  Value firstColumnOf(const Fragments &f);

  // TileMasks.cpp: what is kept of a tile, by where it is.
  void keepSide(Placed &tile, bool upper, bool strict, Value otherwise);
  void emitKeep(tile::KeepOp op);
  void emitWindow(tile::WindowOp op);
  Value isWithin(Value from, Value to, int64_t size, Value first, int64_t offset);

  // TileVectors.cpp: vectors, and what joins them with matrices.
  void emitSpread(tile::SpreadOp op);
  void findSummedInParts();
  void emitSum(tile::SumOp op);
  struct SummedParts;
  void finishSum(Value sum);
  void finishSums();
  void emitWithin(tile::WithinOp op);
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

  // TileDot.cpp: products, and the running sums made of them.
  void emitDot(tile::DotOp op);
  void emitCumsum(tile::CumsumOp op);
  void emitTransposedCumsum(tile::CumsumOp op);
  const Placed *summedInShared(tile::CumsumOp op);
  Placed takePiece(Placed &rest, Type type);
  struct Operand;
  struct Factors;
  Operand operandOf(const Placed &tile, bool isLeft, bool rowsAcross, Value part, int64_t partSize);
  Factors factorsOf(tile::DotOp op, const Fragments &f);
  Vector<Value> loadBlock(const Operand &operand, int64_t across, int64_t along);
  Vector<Value> wordsOf(const Placed &tile, unsigned m, unsigned block);
  void multiply(Vector<Value> &acc, const Fragments &f, unsigned m, unsigned pair,
                llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs, Type element);
  struct Triangle;
  Triangle triangleOf(tile::CumsumOp op, Type type);
  void writeTriangles();
  Vector<Value> wordsOf(const Triangle &triangle, const Fragments &f, unsigned m, int64_t along);
  void addSums(Placed &result, const Placed &piece, const Triangle &triangle);

  // TileWarpgroup.cpp: products by groups of four warps, which go on behind what follows.
  bool isForWarpgroups(tile::DotOp op, const Factors &factors);
  Vector<Value> heldHere(llvm::ArrayRef<Value> elements);
  void emitWarpgroupDot(tile::DotOp op, const Factors &factors);
  Placed accumulatorsFor(tile::DotOp op, Vector<SharedMemory::Range> &reads);
  void issueProduct(Placed &result, bool fromZero, int64_t length, const Placed &right,
                    bool rightAcross, const Placed *left, bool leftAcross,
                    llvm::function_ref<Vector<Value>(unsigned, unsigned)> words);
  Value descriptorOf(const Placed &tile, bool rowsAcross, Value first);
  Value callAsm(const std::string &text, const std::string &constraints, ValueRange operands,
                Type result);
  void awaitGroup(unsigned group);
  void awaitAll();

  void findLongBlocks();
  Value forPowersOfTwo(Value x);
  Value exponential(Operation *op, Value x);
  Value exponentialByPolynomial(Value x);
  /// e^x, or 2^x, whichever `op` is, of `count` elements, or of one that is all of them.
  Vector<Value> exponentials(Operation *op, mlir::ArrayRef<Value> x, unsigned count);
  /// What `value` is in the kernel, once it is there.
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
  bool placesByTurns;
  LoopEnds &loopEnds;
  Kernel kernel;

  llvm::DenseMap<Value, Rows> rows;
  llvm::DenseMap<Value, Cells> cells;
  Vector<Parameter> parameters;
  llvm::DenseMap<Value, Vector<Value>> pointers;
  /// The head read of operands with fewer heads, by their number.
  llvm::DenseMap<Value, Value> sharedHeads;
  Value cuPointer, totalSteps, heads, sequences;        // i64; the last where packed
  Value thread, lane, warp, group, member, head, slice; // i32; lane = 4·group + member
  Value sequenceIndex, stateIndex, firstRow, length;    // i64
  unsigned warps = 0;
  /// The threads that do what is emitted, and the number of their barrier.
  unsigned workers = 0, namedBarrier = 0;
  bool warpgroups = false;
  /// Whether a block has many products. Then x log2 e is kept for e^x, e^-x and the check of x, and
  /// not x, of which each would be multiplied anew; and what is sent is awaited late.
  bool isLong = false;
  Value warpgroup; // the number of this warp's
  /// Whether what is emitted is on one of two sides of a branch.
  bool inBranch = false;

  /// Products being taken, from the oldest on, and what each reads of shared memory.
  struct InFlight {
    Value product;
    unsigned group;
    Vector<SharedMemory::Range> reads;
  };
  Vector<InFlight> inFlight;
  /// What threads have read of shared memory since the last barrier, into which fragments if any,
  /// and where.
  Vector<std::pair<Value, SharedMemory::Range>> asked;
  unsigned groupsIssued = 0;

  /// Of ones and zeros, less a row of it or -1, by whether above the diagonal, without it, of
  /// bf16, how many rows, and that row.
  using TriangleKey = std::tuple<bool, bool, bool, int64_t, int64_t>;
  std::map<TriangleKey, Placed> triangles;
  static TriangleKey triangleKey(tile::CumsumOp op, Type element);

  mlir::LLVM::GlobalOp shared;
  SharedMemory memory;
  /// Whatever has been sent from, so far, and handed out for tiles.
  Vector<SharedMemory::Range> sentFrom, handedOut;
  /// Of a loop's arguments whose place is another one in the next iteration: that.
  llvm::DenseMap<Value, Placed> nextPlaces;
  /// Of the loop whose body is being emitted.
  Turns turns;
  /// Values of the program that are no tiles, and its tiles.
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Placed> tiles;
  /// Sums that lie in shared memory in parts, which are added up where the sum is used.
  struct PartialSum {
    Placed scratch;
    int64_t parts;
  };
  llvm::MapVector<Value, PartialSum> partialSums;
  /// Ops that nothing but a sum needs, of tiles in shared memory at last: they are done part
  /// by part where the sum is, so that no tile of theirs is in registers as a whole.
  llvm::DenseMap<Operation *, tile::SumOp> summedInParts;
  /// Tiles whose last use an op is, or holds.
  llvm::DenseMap<Operation *, Vector<Value>> lastUses;
  llvm::DenseMap<Value, Ring> rings;
  /// Those whose tiles come in boxes.
  llvm::DenseSet<Value> boxed;
  /// The stores of tiles that go in boxes, and the kernel's arguments that are their maps.
  llvm::DenseMap<Operation *, unsigned> sends;
  /// The kernel's arguments that are tensor maps, by the program's argument and a box's size.
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, int64_t>>, unsigned> maps;
  Vector<tile::ReleaseOp> heldReleases;
};

/// That its roles have the warps that a kernel's can have.
mlir::LogicalResult checkRoles(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_EMIT_TILEEMITTER_H
