//===- TileVectors.cpp - vectors, broadcasts and rows ----------------------===//
//
// Emits ops on vectors and between vectors and matrices. In `lanes` layout every warp has a copy of
// the vector, element i in lane i mod 32, so that ops on vectors need no barrier. In `rows` layout
// a thread has the elements of its fragments' rows. A broadcast fetches elements by shuffles. A vector
// may also stay in shared memory and be broadcast from there.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/layout/SummedParts.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Between lanes
//===----------------------------------------------------------------------===//

Value TileEmitter::shuffle(Value value, Value by, gpu::ShuffleMode mode) {
  Type type = value.getType();
  bool narrow = type.getIntOrFloatBitWidth() < 32;
  if (narrow)
    value = b.make<arith::ExtFOp>(b.getF32Type(), value);
  value = b.make<gpu::ShuffleOp>(value, by, b.i32(kWarpSize), mode).getShuffleResult();
  return narrow ? Value(b.make<arith::TruncFOp>(type, value)) : value;
}

/// Lane 4g + t receives the value of lane 4·`group` + t.
Value TileEmitter::fromOwnMember(Value value, unsigned group) {
  Type type = value.getType();
  bool narrow = type.getIntOrFloatBitWidth() < 32;
  if (narrow)
    value = b.make<arith::ExtFOp>(b.getF32Type(), value);
  // `shfl.idx` keeps the lane bits that are set in the mask above bit 8.
  constexpr int kMember = 3 << 8, kLastLane = kWarpSize - 1;
  value = b.make<NVVM::ShflOp>(b.getF32Type(), b.i32(-1), value, b.i32(4 * group),
                               b.i32(kMember | kLastLane), NVVM::ShflKind::idx, UnitAttr());
  return narrow ? Value(b.make<arith::TruncFOp>(type, value)) : value;
}

/// Combines `value` over the lanes that differ in bits `from` to `to`; all of them get identical
/// bits.
Value TileEmitter::butterfly(Value value, unsigned from, unsigned to,
                             llvm::function_ref<Value(Value, Value)> combine) {
  for (unsigned distance = from; distance <= to; distance *= 2)
    value = combine(value, shuffle(value, b.i32(distance), gpu::ShuffleMode::XOR));
  return value;
}

/// elements[index], for an index that is uniform in the warp.
Value TileEmitter::pick(ArrayRef<Value> elements, Value index) {
  Value result = elements.front();
  for (unsigned i = 1; i < elements.size(); ++i)
    result = b.make<arith::SelectOp>(b.equal(index, i), elements[i], result);
  return result;
}

/// Element start + offset of a vector in `lanes` layout, where start is a multiple of 8 and offset
/// is less than 8.
Value TileEmitter::elementAt(const Placed &vector, Value start, Value offset) {
  if (vector.layout.getKind() == LayoutKind::uniform)
    return vector.elements.front();
  Value picked = pick(vector.elements, b.div(start, kWarpSize));
  return shuffle(picked, b.add(b.rem(start, kWarpSize), offset), gpu::ShuffleMode::IDX);
}

/// The elements of a vector that this thread's stored columns (`dim` 1) or rows (0) of `f` need:
/// row (m, half) at 2m + half, column (n, i) at 2n + i.
SmallVector<Value> TileEmitter::slicesOf(const Placed &vector, const Fragments &f, unsigned dim) {
  if (isRows(vector.layout)) {
    assert(dim == 0 && "a vector along rows is spread along others");
    return vector.elements;
  }
  SmallVector<Value> slices;
  if (isInShared(vector.layout)) {
    Type element = getElementTypeOrSelf(vector.type);
    Value from = b.at(vector.address, element, dim == 0 ? firstRowOf(f) : firstColumnOf(f));
    // Columns are adjacent in pairs.
    unsigned count = dim == 0 ? 2 * f.rowTiles() : f.columnTiles();
    for (unsigned i = 0; i < count; ++i) {
      int64_t offset = dim == 0 ? f.rowOffset(i) : Fragments::columnOffset(2 * i);
      slices.append(b.unpack(b.load(KernelBuilder::withCount(element, dim == 0 ? 1 : 2),
                                    b.at(from, element, offset))));
    }
    return slices;
  }
  if (dim == 0) {
    for (unsigned i = 0; i < 2 * f.rowTiles(); ++i)
      slices.push_back(elementAt(vector, b.add(partRow(f), f.rowOffset(i)), group));
    return slices;
  }
  bool isMultiple = f.partColumns() % kWarpSize == 0 || f.columnParts == 1;
  if (!isMultiple || !inBranch) {
    for (unsigned n = 0; n < f.columnTiles(); ++n)
      for (unsigned i : {0, 1})
        slices.push_back(
            elementAt(vector, b.add(partColumn(f), 8 * n), b.add(b.mul(member, 2), i)));
    return slices;
  }
  // In a branch, registers are short. Each block of 32 elements is first permuted: element 8n + 2t
  // + i goes to lane 4 (2n + i) + t. Then the source lane of each element is a constant but for t,
  // and the shuffle needs no register for it.
  bool isUniform = vector.layout.getKind() == LayoutKind::uniform;
  Value source = b.add(b.add(b.mul(b.div(lane, 8), 8), b.mul(member, 2)), b.rem(group, 2));
  Value turned;
  for (unsigned n = 0; n < f.columnTiles(); ++n) {
    if (!isUniform && n % 4 == 0)
      turned = shuffle(pick(vector.elements, b.div(b.add(partColumn(f), 8 * n), kWarpSize)), source,
                       gpu::ShuffleMode::IDX);
    for (unsigned i : {0, 1})
      slices.push_back(isUniform ? vector.elements.front()
                                 : fromOwnMember(turned, 2 * (n % 4) + i));
  }
  return slices;
}

void TileEmitter::emitBroadcast(BroadcastOp op) {
  Placed tile;
  tile.type = op.getType();
  tile.layout = layoutOf(op.getResult());
  const Placed &vector = placed(op.getVector());
  if (tile.layout.getKind() == LayoutKind::uniform) {
    tile.elements = vector.elements;
  } else {
    Fragments f = Fragments::of(tile.type, tile.layout);
    unsigned dim = f.storedDim(op.getDim());
    SmallVector<Value> slices = slicesOf(vector, f, dim);
    tile.elements.resize(f.size());
    f.forEachElement([&](unsigned slot, unsigned row, unsigned column) {
      tile.elements[slot] = slices[dim == 0 ? row : column];
    });
  }
  tiles[op.getResult()] = tile;
}

/// Stores row `row` of a matrix in fragments to the place of `result` in shared memory.
Placed TileEmitter::shareRow(const Placed &tile, Value row, Value result) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  Type element = getElementTypeOrSelf(tile.type);
  Placed scratch = sharedFor(result);
  Value firstRow = firstRowOf(f), firstColumn = firstColumnOf(f);
  // `along` is the address of this thread's first element of the row; `across` is its position in
  // the other direction.
  Value along = b.at(scratch.address, element, f.transposed ? firstRow : firstColumn);
  Value across = f.transposed ? firstColumn : firstRow;
  SmallVector<Value> has(f.transposed ? 2 * f.columnTiles() : 2 * f.rowTiles());
  for (auto [i, here] : llvm::enumerate(has)) {
    int64_t offset = f.transposed ? Fragments::columnOffset(i) : f.rowOffset(i);
    here = b.make<arith::CmpIOp>(arith::CmpIPredicate::eq, b.add(across, offset), row);
    b.onlyIf(here, [&, number = unsigned(i)] {
      f.forEachElement([&](unsigned slot, unsigned r, unsigned c) {
        if ((f.transposed ? c : r) == number)
          b.store(tile.elements[slot],
                  b.at(along, element, f.transposed ? f.rowOffset(r) : Fragments::columnOffset(c)));
      });
    });
  }
  return scratch;
}

/// Column `column` of the stored matrix. Each warp has whole rows.
Placed TileEmitter::storedColumn(const Placed &tile, Value column, LayoutAttr layout) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  Placed result;
  result.layout = layout;
  // Lane 4g + t has columns 8n + 2t + i.
  Value half = b.rem(column, 2), block = b.div(column, 8);
  Value holder = b.add(b.mul(group, 4), b.rem(b.div(column, 2), 4));
  for (unsigned row = 0; row < 2 * f.rowTiles(); ++row) {
    SmallVector<Value> sides;
    for (unsigned i : {0, 1}) {
      SmallVector<Value> blocks;
      for (unsigned n = 0; n < f.columnTiles(); ++n)
        blocks.push_back(tile.elements[f.index(row / 2, n, 2 * (row % 2) + i)]);
      sides.push_back(pick(blocks, block));
    }
    result.elements.push_back(shuffle(pick(sides, half), holder, gpu::ShuffleMode::IDX));
  }
  return result;
}

Value TileEmitter::positionOf(OpFoldResult position) {
  if (auto constant = dyn_cast<Attribute>(position))
    return b.i32(cast<IntegerAttr>(constant).getInt());
  return narrowIndex(cast<Value>(position));
}

void TileEmitter::emitExtract(vector::ExtractOp op) {
  Placed tile = placed(op.getSource());
  Value result = op.getResult();
  SmallVector<OpFoldResult> positions = op.getMixedPosition();
  bool isUniform = tile.layout.getKind() == LayoutKind::uniform;
  bool isMatrix = op.getSourceVectorType().getRank() == 2;
  if (isa<VectorType>(result.getType())) {
    if (isMatrix && !isUniform) {
      Value row = positionOf(positions.front());
      LayoutAttr layout = layoutOf(result);
      tile = !isFragments(tile.layout) ? vectorFrom(tile, row, layout)
             : isRows(layout)          ? storedColumn(tile, row, layout)
                                       : shareRow(tile, row, result);
    }
    tile.type = result.getType();
    tiles[result] = tile;
    return;
  }
  if (isUniform) {
    scalars.map(result, tile.elements.front());
    return;
  }
  if (isMatrix)
    tile = lanesFrom(tile, positionOf(positions.front()));
  Value index = positionOf(positions.back());
  Value picked = pick(tile.elements, b.div(index, kWarpSize));
  scalars.map(result, shuffle(picked, b.rem(index, kWarpSize), gpu::ShuffleMode::IDX));
}

/// In shared memory the row is stored in place.
void TileEmitter::emitInsert(vector::InsertOp op) {
  Placed tile = placed(op.getDest()), row = placed(op.getValueToStore());
  Value at = positionOf(op.getMixedPosition().front());
  if (isInShared(tile.layout)) {
    Placed place = tile;
    place.address = b.at(tile.address, b.getI8Type(), b.mul(at, tile.pitch));
    if (isInShared(row.layout))
      row = lanesFrom(row, Value());
    else if (row.layout.getKind() == LayoutKind::uniform)
      row = repeated(row, computedLayout(row.type, warps));
    isRows(row.layout) ? writeRows(row, place) : writeLanes(row, place);
    tiles[op.getResult()] = tile;
    return;
  }
  Fragments f = Fragments::of(tile.type, tile.layout);
  unsigned dim = f.storedDim(0); // the stored direction that counts rows
  SmallVector<Value> slices = slicesOf(row, f, 1 - dim);
  Value distance = b.sub(at, dim == 0 ? firstRowOf(f) : firstColumnOf(f));
  f.forEachElement([&](unsigned slot, unsigned i, unsigned j) {
    int64_t offset = dim == 0 ? f.rowOffset(i) : Fragments::columnOffset(j);
    Value isHere = b.equal(distance, offset);
    tile.elements[slot] =
        b.make<arith::SelectOp>(isHere, slices[dim == 0 ? j : i], tile.elements[slot]);
  });
  tiles[op.getResult()] = tile;
}
