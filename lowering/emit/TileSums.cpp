//===- TileSums.cpp - sums, running sums and guards over tiles ------------===//
//
// A reduction that crosses warps goes through a few hundred bytes of shared memory.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/layout/SummedParts.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// From matrices to vectors
//===----------------------------------------------------------------------===//

/// Computes the operand of a reduction block by block.
struct TileEmitter::SummedParts {
  SummedParts(TileEmitter &emitter, Operation *sum)
      : emitter(emitter), sum(sum), summed(sum->getOperand(0)),
        f(Fragments::of(summed.getType(), layoutOf(summed))) {
    find(summed);
    for (auto &[tile, addresses] : swizzledTiles)
      emitter.forEachSwizzledBlock(f, emitter.placed(tile),
                                   [&, &addresses = addresses](unsigned, unsigned, Value address) {
                                     addresses.push_back(address);
                                   });
  }

  /// This thread's eight elements of 16×16 block `number`.
  SmallVector<Value> block(unsigned number) {
    llvm::DenseMap<Value, SmallVector<Value>> known;
    return block(summed, number, known);
  }
  static constexpr unsigned kBlock = 8;

private:
  bool isInParts(Value value) const {
    return value.getDefiningOp() && emitter.summedInParts.lookup(value.getDefiningOp()) == sum;
  }

  /// Collects the swizzled tiles that are read.
  void find(Value value) {
    if (!isInParts(value))
      return;
    if (auto convert = value.getDefiningOp<ConvertOp>()) {
      swizzledTiles[convert.getTile()];
      return;
    }
    for (Value operand : value.getDefiningOp()->getOperands())
      find(operand);
  }

  SmallVector<Value> block(Value value, unsigned number,
                           llvm::DenseMap<Value, SmallVector<Value>> &known) {
    if (auto it = known.find(value); it != known.end())
      return it->second;
    SmallVector<Value> elements;
    if (!isInParts(value)) {
      if (!isa<VectorType>(value.getType()))
        elements = {emitter.scalar(value)};
      else if (ArrayRef<Value> all = emitter.placed(value).elements; all.size() == 1)
        elements = {all.front()};
      else
        elements.append(all.begin() + number * kBlock, all.begin() + (number + 1) * kBlock);
    } else if (auto convert = value.getDefiningOp<ConvertOp>()) {
      Placed &shared = emitter.placed(convert.getTile());
      elements = emitter.blockFromSwizzled(getElementTypeOrSelf(shared.type),
                                           swizzledTiles[convert.getTile()][number],
                                           f.transposed != isTransposed(shared.layout));
    } else {
      Operation *op = value.getDefiningOp();
      SmallVector<SmallVector<Value>> operands;
      for (Value operand : op->getOperands())
        operands.push_back(block(operand, number, known));
      SmallVector<ArrayRef<Value>> refs(operands.begin(), operands.end());
      elements = emitter.elementwise(op, refs, kBlock);
    }
    return known[value] = elements;
  }

  TileEmitter &emitter;
  Operation *sum;
  Value summed;
  Fragments f;
  /// Each swizzled tile, and the address of each of its blocks.
  llvm::MapVector<Value, SmallVector<Value>> swizzledTiles;
};

/// Adds `partial`, a thread's column sums, over the warp's eight groups of lanes. If the columns
/// divide evenly, each round exchanges half of the remaining columns, so that each group ends with
/// an eighth of them: 14 shuffles for 16 columns, where a butterfly of all needs 48. The result is
/// the index of that eighth. Otherwise all lanes get all sums, and the result is null.
std::optional<Value> TileEmitter::sumOverGroups(SmallVector<Value> &partial,
                                                llvm::function_ref<Value(Value, Value)> plus) {
  if (partial.size() != 8 && partial.size() % 16) {
    for (Value &sum : partial)
      sum = butterfly(sum, 4, 16, plus);
    return std::nullopt;
  }
  Value which = b.i32(0);
  for (unsigned distance = 16; distance >= 4; distance /= 2) {
    unsigned half = partial.size() / 2;
    Value bit = b.rem(b.div(lane, distance), 2), isUpper = b.equal(bit, 1);
    SmallVector<Value> kept;
    for (unsigned i = 0; i < half; ++i) {
      Value keep = b.make<arith::SelectOp>(isUpper, partial[half + i], partial[i]);
      Value give = b.make<arith::SelectOp>(isUpper, partial[i], partial[half + i]);
      kept.push_back(plus(keep, shuffle(give, b.i32(distance), gpu::ShuffleMode::XOR)));
    }
    partial = kept;
    which = b.add(b.mul(which, 2), bit);
  }
  return which;
}

/// Sums that go to `rows` stay in registers; of others, each warp stores its part.
void TileEmitter::emitSum(Operation *op) {
  Value summed = op->getOperand(0);
  auto partialSum = dyn_cast<PartialSumOp>(op);
  Placed tile;
  std::optional<SummedParts> byBlocks;
  if (summedInParts.contains(summed.getDefiningOp())) {
    byBlocks.emplace(*this, op);
    tile.type = summed.getType();
    tile.layout = layoutOf(summed);
  } else {
    tile = placed(summed);
  }
  Fragments f = Fragments::of(tile.type, tile.layout);
  unsigned dim = partialSum ? partialSum.getDim() : cast<tile::SumOp>(op).getDim();
  bool overColumns = f.storedDim(dim) == 1;
  auto plus = [&](Value x, Value y) -> Value {
    return b.make<arith::AddFOp>(x, y, arith::FastMathFlags::contract);
  };
  SmallVector<Value> partial(overColumns ? 2 * f.rowTiles() : 2 * f.columnTiles());
  f.forEachElement([&](unsigned slot, unsigned row, unsigned column) {
    // Blocks are visited in order.
    if (byBlocks && slot == tile.elements.size())
      tile.elements.append(byBlocks->block(slot / SummedParts::kBlock));
    Value &sum = partial[overColumns ? row : column];
    sum = sum ? plus(sum, tile.elements[slot]) : Value(tile.elements[slot]);
  });
  std::optional<Value> which;
  if (overColumns)
    for (Value &sum : partial)
      sum = butterfly(sum, 1, 2, plus);
  else
    which = sumOverGroups(partial, plus);
  if (partialSum)
    return storePartialSums(partialSum, f, overColumns, partial, which);
  Placed sums;
  sums.type = op->getResult(0).getType();
  sums.layout = layoutOf(op->getResult(0));
  sums.elements = partial;
  tiles[op->getResult(0)] = sums;
}

/// Stores one row of partial sums from each of the parts that share the result's elements. `which`
/// is what sumOverGroups returned.
void TileEmitter::storePartialSums(PartialSumOp op, const Fragments &f, bool overColumns,
                                   SmallVector<Value> partial, std::optional<Value> which) {
  int64_t parts = overColumns ? f.columnParts : f.rowParts;
  int64_t length = op.getType().getDimSize(0) / parts;
  Placed stored = sharedFor(op);
  Value part =
      overColumns ? b.rem(b.div(warp, f.rowParts), f.columnParts) : b.rem(warp, f.rowParts);
  Value first = b.add(b.mul(part, length), overColumns ? firstRowOf(f) : firstColumnOf(f));
  Value address = b.at(stored.address, b.getF32Type(), first);
  if (which) {
    // Adjacent columns are stored in pairs.
    unsigned size = partial.size();
    Value offset = size % 2 ? b.add(b.mul(b.div(*which, 2), Fragments::columnOffset(2 * size)),
                                    b.rem(*which, 2))
                            : b.mul(*which, Fragments::columnOffset(size));
    address = b.at(address, b.getF32Type(), offset);
    for (unsigned i = 0; i < size; i += 2)
      b.store(size % 2 ? partial[i] : b.pack({partial[i], partial[i + 1]}),
              b.at(address, b.getF32Type(), Fragments::columnOffset(i)));
  } else {
    b.onlyIf(b.equal(overColumns ? member : group, 0), [&] {
      for (auto [i, sum] : llvm::enumerate(partial))
        b.store(sum, b.at(address, b.getF32Type(),
                          overColumns ? f.rowOffset(i) : Fragments::columnOffset(i)));
    });
  }
  tiles[op] = stored;
}

void TileEmitter::emitAddParts(AddPartsOp op) {
  Placed parts = placed(op.getParts()), result;
  int64_t length = op.getType().getDimSize(0);
  for (int64_t p = 0; p < op.getParts().getType().getDimSize(0) / length; ++p) {
    Placed row = parts;
    row.type = op.getType();
    row.address = b.at(parts.address, b.getF32Type(), p * length);
    Placed some = lanesFrom(row, Value());
    for (auto [i, value] : llvm::enumerate(some.elements))
      some.elements[i] =
          p ? b.make<arith::AddFOp>(result.elements[i], value).getResult() : Value(value);
    result = some;
  }
  tiles[op] = result;
}

SmallVector<Operation *> TileEmitter::orderingBefore(RangeGuardOp guard) {
  SmallVector<Operation *> ops;
  for (Operation *op = guard->getPrevNode(); isa_and_nonnull<FenceOp, WaitStoresOp>(op);
       op = op->getPrevNode())
    ops.insert(ops.begin(), op);
  return ops;
}

/// The range guard: whether |x| is at most the bound everywhere. The barrier that combines the
/// threads' answers also orders shared memory. Uniform tiles are compared separately, because they
/// may be constant.
void TileEmitter::emitRangeGuard(RangeGuardOp op) {
  double bound = op.getBound().convertToDouble();
  Value most, mine;
  for (Value operand : op.getTiles()) {
    const Placed &tile = placed(operand);
    if (tile.layout.getKind() == LayoutKind::uniform) {
      Value size = b.make<math::AbsFOp>(tile.elements.front());
      mine = b.both(mine, b.make<arith::CmpFOp>(arith::CmpFPredicate::OLE, size, b.f32(bound)));
      continue;
    }
    // Lanes past the end of a vector repeat its last element or have partial sums; ignore them.
    bool isOverLanes = tile.layout.getKind() == LayoutKind::lanes;
    int64_t length = isOverLanes ? lanesLength(tile.type) : 0;
    for (unsigned i = 0; i < tile.elements.size(); ++i) {
      Value x = tile.elements[i];
      Value size = b.make<math::AbsFOp>(isLong ? forPowersOfTwo(x) : x);
      if (int64_t(i + 1) * kWarpSize > length && length)
        size = b.make<arith::SelectOp>(b.less(b.add(lane, i * kWarpSize), length), size, b.f32(0));
      most = most ? b.make<arith::MaximumFOp>(most, size).getResult() : size;
    }
  }
  if (most)
    mine =
        b.both(mine, b.make<arith::CmpFOp>(arith::CmpFPredicate::OLE, most,
                                           b.f32(isLong ? bound * llvm::numbers::log2e : bound)));
  for (Operation *ordering : orderingBefore(op))
    emitOrdering(ordering);
  scalars.map(op.getResult(), barrier(mine));
}

//===----------------------------------------------------------------------===//
// Along a vector
//===----------------------------------------------------------------------===//

/// A vector with the total in every element.
Placed TileEmitter::totalOfLanes(const Placed &tile) {
  Placed result = tile;
  int64_t length = lanesLength(tile.type);
  auto plus = [&](Value x, Value y) -> Value { return b.make<arith::AddFOp>(x, y); };
  Value sum;
  for (auto [i, element] : llvm::enumerate(tile.elements)) {
    Value x = element;
    if (int64_t(i + 1) * kWarpSize > length)
      x = b.make<arith::SelectOp>(b.less(b.add(lane, i * kWarpSize), length), x, b.f32(0.0));
    sum = sum ? plus(sum, x) : x;
  }
  result.elements.assign(tile.elements.size(), butterfly(sum, 1, kWarpSize / 2, plus));
  return result;
}

/// Cumsum in `lanes` layout: a log-step scan over each 32 elements, with a running total between
/// them.
Placed TileEmitter::cumsumOfLanes(CumsumOp op) {
  Placed tile = placed(op.getTile());
  if (isTotal(op))
    return totalOfLanes(tile);
  int64_t length = lanesLength(tile.type);
  bool reverse = op.getReverse();
  gpu::ShuffleMode mode = reverse ? gpu::ShuffleMode::DOWN : gpu::ShuffleMode::UP;
  // The lane's position in scan order.
  Value place = reverse ? b.sub(b.i32(kWarpSize - 1), lane) : lane;
  Value sum = b.f32(0.0);
  for (unsigned k = 0, size = tile.elements.size(); k < size; ++k) {
    unsigned i = reverse ? size - 1 - k : k;
    Value x = tile.elements[i];
    if ((i + 1) * kWarpSize > length)
      x = b.make<arith::SelectOp>(b.less(b.add(lane, i * kWarpSize), length), x, b.f32(0.0));
    for (unsigned distance = 1; distance < kWarpSize; distance *= 2) {
      Value more = b.make<arith::AddFOp>(x, shuffle(x, b.i32(distance), mode));
      x = b.make<arith::SelectOp>(b.less(place, distance), x, more);
    }
    Value whole = b.make<arith::AddFOp>(x, sum);
    Value before = sum;
    sum = shuffle(whole, b.i32(reverse ? 0 : kWarpSize - 1), gpu::ShuffleMode::IDX);
    if (op.getExclusive())
      whole = b.make<arith::SelectOp>(b.equal(place, 0), before, shuffle(whole, b.i32(1), mode));
    tile.elements[i] = whole;
  }
  if (std::optional<int64_t> from = op.getFrom()) {
    Value less =
        shuffle(tile.elements[*from / kWarpSize], b.i32(*from % kWarpSize), gpu::ShuffleMode::IDX);
    for (Value &element : tile.elements)
      element = b.make<arith::SubFOp>(element, less);
  }
  return tile;
}
