//===- TileOrientation.cpp - which matrices are stored transposed ----------===//
#include "lowering/layout/TileOrientation.h"
#include "lowering/target/CostModel.h"
#include "dialect/tile/Branch.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Up to so many classes, every combination is tried. Of more, one or two at a time are flipped.
static constexpr unsigned kMaxClassesTogether = 12;
/// Costs above that of any conversion: of a matmul that `wgmma` cannot do, and of a choice that
/// cannot be lowered.
static constexpr int64_t kSlow = int64_t(1) << 24, kNever = int64_t(1) << 40;

static bool isMatrix(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() == 2;
}

bool ejk::isUniformTile(Value value) {
  Operation *def = value.getDefiningOp();
  if (!isa<VectorType>(value.getType()))
    return true;
  if (!def)
    return false;
  if (def->hasTrait<OpTrait::ConstantLike>())
    return true;
  bool passesOn = isa<BroadcastOp, vector::BroadcastOp>(def) ||
                  (OpTrait::hasElementwiseMappableTraits(def) && def->getNumResults() == 1);
  return passesOn &&
         llvm::all_of(def->getOperands(), [](Value operand) { return isUniformTile(operand); });
}

bool TileOrientation::isRematerialised(Value value) {
  Operation *def = value.getDefiningOp();
  return isa_and_nonnull<BroadcastOp, LoadOp>(def) ||
         (isa_and_nonnull<arith::ExtFOp>(def) && def->getOperand(0).getDefiningOp<LoadOp>());
}

TileOrientation::TileOrientation(ProgramOp program, unsigned warps, bool warpgroups)
    : warps(warps), warpgroups(warpgroups) {
  if (!warpgroups)
    return;
  program.walk([&](Operation *op) { collect(op); });
  choose();
  for (DotOp dot : dots)
    costOf(dot, dot.isInTf32(), transposed, stored);
}

void TileOrientation::join(Value a, Value b) {
  if (!isMatrix(a) || isRematerialised(a) || isRematerialised(b) || isUniformTile(a) ||
      isUniformTile(b))
    return;
  classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
}

bool ejk::joinPassedOn(Operation *op, llvm::function_ref<void(Value, Value)> join) {
  auto joinAll = [&](ValueRange as, ValueRange bs) {
    for (auto [a, b] : llvm::zip(as, bs))
      join(a, b);
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    joinAll(loop.getInitArgs(), loop.getRegionIterArgs());
    joinAll(loop.getYieldedValues(), loop.getRegionIterArgs());
    joinAll(loop.getResults(), loop.getRegionIterArgs());
    return true;
  }
  Branch branch = Branch::of(op);
  if (!branch)
    return false;
  for (Region &side : branch->getRegions())
    if (!side.empty())
      joinAll(side.front().getTerminator()->getOperands(), branch->getResults());
  return true;
}

void TileOrientation::collect(Operation *op) {
  if (auto dot = dyn_cast<DotOp>(op)) {
    dots.push_back(dot);
    classes.insert(dot.getResult().getAsOpaquePointer());
    join(dot.getAcc(), dot.getResult());
  } else if (!joinPassedOn(op, [&](Value a, Value b) { join(a, b); }) &&
             (isa<CumsumOp, MaskOp, WindowOp, vector::InsertOp>(op) ||
              (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1))) {
    for (Value operand : op->getOperands())
      if (isMatrix(operand) && isMatrix(op->getResult(0)))
        join(operand, op->getResult(0));
  }
  if (auto running = dyn_cast<CumsumOp>(op); running && isMatrix(running))
    sums.push_back(running);
  // Extracting a row is cheap from a transposed matrix, where each warp keeps the channels that it
  // has. From another matrix it takes a barrier.
  if (auto row = dyn_cast<vector::ExtractOp>(op);
      row && isMatrix(row.getSource()) && isa<VectorType>(row.getType()))
    rowSources.push_back(row.getSource());
  // Elements that are adjacent in global memory are not adjacent in a transposed matrix. That
  // counts only inside loops.
  bool isOften = op->getParentOp() != op->getParentOfType<ProgramOp>();
  if (isOften && isa<LoadSlotOp>(op) && isMatrix(op->getResult(0)))
    memoryTiles.push_back(op->getResult(0));
  if (isOften && isa<StoreSlotOp, StoreOp>(op) && isMatrix(op->getOperand(0)) &&
      getElementTypeOrSelf(op->getOperand(0)).getIntOrFloatBitWidth() == 32)
    memoryTiles.push_back(op->getOperand(0));
}

void *TileOrientation::classOf(Value value) {
  void *pointer = value.getAsOpaquePointer();
  auto leader = classes.findLeader(pointer);
  return leader == classes.member_end() ? nullptr : *leader;
}

bool TileOrientation::isTransposed(Value value, const Choice &choice) {
  void *leader = classOf(value);
  return leader && choice.contains(leader);
}

LayoutAttr TileOrientation::layoutOf(Value matrix) {
  if (!warpgroups)
    return computedLayout(matrix.getType(), warps);
  return warpgroupLayout(matrix.getType(), warps, isTransposed(matrix, transposed));
}

static int64_t bytesOf(Value tile) {
  auto type = cast<VectorType>(tile.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

/// The cost of a matmul. Adds the operands that must be stored to shared memory to `stored`.
int64_t TileOrientation::costOf(DotOp dot, bool inTf32, const Choice &choice,
                                llvm::SetVector<Value> &stored) {
  bool isFlipped = isTransposed(dot.getResult(), choice);
  LayoutAttr layout = warpgroupLayout(dot.getType(), warps, isFlipped);
  Value left = dot.getLhs(), right = dot.getRhs();
  bool isLeftFlipped = isFlipped ? !dot.getRhsTransposed() : dot.getLhsTransposed();
  if (isFlipped)
    std::swap(left, right);
  int64_t cost = layout.getRowParts() % kWarpgroup == 0 ? 0 : kSlow;
  // An MMA has 64 rows, so that only columns can be left out.
  if (dot.getRows() && !isFlipped)
    cost += kSlow;
  // By side, because the two operands of x xᵀ are one value.
  for (bool isLeft : {true, false}) {
    Value operand = isLeft ? left : right;
    bool isLoad = operand.getDefiningOp<LoadOp>() != nullptr;
    bool isOperandFlipped = isTransposed(operand, choice);
    LayoutAttr own = warpgroupLayout(operand.getType(), warps, isOperandFlipped);
    if (isLeft && !isLoad && isRegisterOperand(own, isLeftFlipped, layout))
      continue; // straight from registers
    if (!isLoad)
      stored.insert(operand);
    // Numbers of 32 bits are not transposed on the way.
    auto type = cast<VectorType>(operand.getType());
    auto inF32 = VectorType::get(type.getShape(), Float32Type::get(type.getContext()));
    if (inTf32 &&
        (isLeft || isOperandFlipped == isFlipped || !fitsSwizzledTf32(inF32, isOperandFlipped)))
      cost += kNever;
    if (!inTf32 && !fitsSwizzled(type, isOperandFlipped))
      cost += kSlow;
  }
  return cost;
}

bool TileOrientation::fitsTf32(DotOp dot) {
  llvm::SetVector<Value> ignored;
  return costOf(dot, /*inTf32=*/true, transposed, ignored) < kNever;
}

bool TileOrientation::isPossible() {
  return llvm::all_of(dots, [&](DotOp dot) { return !dot.isInTf32() || fitsTf32(dot); }) &&
         llvm::all_of(sums, [&](CumsumOp sum) { return costOf(sum, transposed) < kNever; });
}

/// The cost of a cumsum. Of a transposed matrix it reads registers or shared memory as they are;
/// otherwise it stores the bf16 terms of an f32 to shared memory.
int64_t TileOrientation::costOf(CumsumOp running, const Choice &choice) {
  bool isFlipped = isTransposed(running, choice);
  if (isFlipped &&
      !hasWarpgroupSums(running.getType(), warpgroupLayout(running.getType(), warps, true)))
    return kNever;
  bool isWidened = running.getTile().getDefiningOp<arith::ExtFOp>() != nullptr;
  return isFlipped || isWidened ? 0 : kSplitTerms * bytesOf(running) / 2;
}

namespace {
/// The cost in bytes through shared memory, or the equivalent, of each choice of transposed
/// classes. Each part depends on few classes: its cost is computed once for each combination of
/// those, and thousands of choices only look it up.
class CostTable {
public:
  using Choice = llvm::SmallBitVector; // by the classes' numbers
  using Classes = llvm::DenseSet<void *>;
  using Cost = llvm::function_ref<int64_t(const Classes &, llvm::SetVector<Value> &)>;

  explicit CostTable(ArrayRef<void *> classes) : classes(classes) {}

  /// Adds a part, whose `cost` depends on whether each of `on` is transposed. The cost adds the
  /// tiles that are stored to shared memory, each of which counts once.
  void add(ArrayRef<void *> on, Cost cost) {
    Part part;
    for (auto [i, candidate] : llvm::enumerate(classes))
      if (llvm::is_contained(on, candidate))
        part.on.push_back(i);
    for (unsigned bits = 0; bits < 1u << part.on.size(); ++bits) {
      Classes flipped;
      for (auto [i, number] : llvm::enumerate(part.on))
        if (bits >> i & 1)
          flipped.insert(classes[number]);
      llvm::SetVector<Value> stored;
      part.costs.push_back(cost(flipped, stored));
      SmallVector<unsigned, 2> &numbers = part.stored.emplace_back();
      for (Value tile : stored) {
        tiles.insert(tile);
        numbers.push_back(llvm::find(tiles, tile) - tiles.begin());
      }
    }
    parts.push_back(std::move(part));
  }

  int64_t costOf(const Choice &choice) const {
    int64_t cost = 0;
    llvm::SmallBitVector stored(tiles.size());
    for (const Part &part : parts) {
      unsigned bits = 0;
      for (auto [i, number] : llvm::enumerate(part.on))
        bits |= unsigned(choice[number]) << i;
      cost += part.costs[bits];
      for (unsigned tile : part.stored[bits])
        if (!stored[tile]) {
          stored.set(tile);
          cost += bytesOf(tiles[tile]);
        }
    }
    return cost;
  }

private:
  struct Part {
    SmallVector<unsigned, 3> on; // numbers of classes
    // By which of these are transposed, bit by bit.
    SmallVector<int64_t, 8> costs;
    SmallVector<SmallVector<unsigned, 2>, 8> stored;
  };
  ArrayRef<void *> classes;
  std::vector<Part> parts;
  llvm::SetVector<Value> tiles;
};
} // namespace

void TileOrientation::choose() {
  llvm::SetVector<void *> leaders;
  for (DotOp dot : dots)
    for (Value value : {Value(dot.getResult()), Value(dot.getLhs()), Value(dot.getRhs())})
      if (void *leader = classOf(value))
        leaders.insert(leader);
  CostTable table(leaders.getArrayRef());
  for (DotOp dot : dots)
    table.add({classOf(dot.getResult()), classOf(dot.getLhs()), classOf(dot.getRhs())},
              [&](const Choice &choice, auto &stored) {
                return costOf(dot, dot.isInTf32(), choice, stored);
              });
  for (Value tile : memoryTiles)
    table.add({classOf(tile)}, [&](const Choice &choice, auto &) {
      return isTransposed(tile, choice) ? bytesOf(tile) / 4 : 0;
    });
  for (CumsumOp running : sums)
    table.add({classOf(running)},
              [&](const Choice &choice, auto &) { return costOf(running, choice); });
  for (Value matrix : rowSources)
    table.add({classOf(matrix)}, [&](const Choice &choice, auto &) {
      return classOf(matrix) && !isTransposed(matrix, choice) ? cost::kBarrierBytes : 0;
    });

  CostTable::Choice chosen(leaders.size());
  int64_t best = table.costOf(chosen);
  auto keepIfBetter = [&](const CostTable::Choice &choice) {
    int64_t cost = table.costOf(choice);
    if (cost >= best)
      return false;
    best = cost;
    chosen = choice;
    return true;
  };
  if (leaders.size() <= kMaxClassesTogether) {
    for (uint64_t bits = 1; bits < uint64_t(1) << leaders.size(); ++bits) {
      CostTable::Choice choice(leaders.size());
      for (size_t i = 0; i < leaders.size(); ++i)
        choice[i] = bits >> i & 1;
      keepIfBetter(choice);
    }
  } else {
    // One or two classes at a time, until none is better.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t first = 0; first < leaders.size(); ++first)
        for (size_t second = 0; second < leaders.size(); ++second) {
          CostTable::Choice choice = chosen;
          choice.flip(first);
          if (second != first)
            choice.flip(second);
          changed |= keepIfBetter(choice);
        }
    }
  }
  for (unsigned number : chosen.set_bits())
    transposed.insert(leaders[number]);
}
