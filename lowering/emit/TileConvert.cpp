//===- TileConvert.cpp - tiles from one layout to another ------------------===//
//
// Emits tile.convert: stores each thread's elements to shared memory, or loads them.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Which part of a matrix a thread has
//===----------------------------------------------------------------------===//

Value TileEmitter::partRow(const Fragments &f) {
  return f.rowParts == 1 ? b.i32(0) : b.mul(b.rem(warp, f.rowParts), 16);
}

Value TileEmitter::partColumn(const Fragments &f) {
  if (f.columnParts == 1)
    return b.i32(0);
  return b.mul(b.rem(b.div(warp, f.rowParts), f.columnParts), f.partColumns());
}

Value TileEmitter::firstRowOf(const Fragments &f) { return b.add(partRow(f), group); }
Value TileEmitter::firstColumnOf(const Fragments &f) {
  return b.add(partColumn(f), b.mul(member, 2));
}

/// The address of this thread's first element in `shared`. Every other element lies at a constant
/// distance from it.
Value TileEmitter::fragmentsAddress(const Fragments &f, const Placed &shared) {
  unsigned bytes = KernelBuilder::bytesOf(getElementTypeOrSelf(shared.type));
  Value row = firstRowOf(f), column = firstColumnOf(f);
  if (f.transposed)
    std::swap(row, column);
  Value offset = b.add(b.mul(row, shared.pitch), b.mul(column, bytes));
  return b.at(shared.address, b.getI8Type(), offset);
}

/// Calls `visit` for each run of adjacent elements that a thread has in a stored row: two elements,
/// or one if the fragments are transposed. The arguments are the slot of the first element, the
/// number of elements, and the distance in bytes from the thread's first element.
static void forEachRun(const Fragments &f, unsigned pitch, unsigned bytes,
                       llvm::function_ref<void(unsigned, unsigned, int64_t)> visit) {
  f.forEachElement([&](unsigned slot, unsigned row, unsigned column) {
    int64_t r = f.rowOffset(row), c = Fragments::columnOffset(column);
    if (f.transposed)
      visit(slot, 1, c * pitch + r * bytes);
    else if (slot % 2 == 0)
      visit(slot, 2, r * pitch + c * bytes);
  });
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

void TileEmitter::writeFragments(const Placed &tile, const Placed &shared) {
  if (isSwizzled(shared.layout))
    return writeSwizzled(tile, shared);
  Fragments f = Fragments::of(tile.type, tile.layout);
  unsigned bytes = KernelBuilder::bytesOf(getElementTypeOrSelf(shared.type));
  Value first = fragmentsAddress(f, shared);
  forEachRun(f, shared.pitch, bytes, [&](unsigned slot, unsigned count, int64_t offset) {
    b.store(b.pack(ValueRange(tile.elements).slice(slot, count)),
            b.at(first, b.getI8Type(), offset));
  });
}

/// Stores a vector that every warp has a copy of. Each warp stores its share of the elements.
void TileEmitter::writeLanes(const Placed &vector, const Placed &shared) {
  int64_t length = lanesLength(vector.type);
  Type element = getElementTypeOrSelf(vector.type);
  Value number = b.add(b.mul(warp, kWarpSize), lane);
  ArrayRef<Value> left = vector.elements;
  for (int64_t first = 0; !left.empty(); first += warps * kWarpSize) {
    ArrayRef<Value> some = left.take_front(warps);
    left = left.drop_front(some.size());
    Value mine = pick(some, warp);
    bool all = first + int64_t(warps * kWarpSize) <= length;
    b.onlyIf(all ? Value() : b.less(number, length - first),
             [&] { b.store(mine, b.at(shared.address, element, b.add(number, first))); });
  }
}

/// Stores a vector in `rows` layout. Several lanes and warps have the same elements; one of them
/// stores each.
void TileEmitter::writeRows(const Placed &vector, const Placed &shared) {
  Fragments f = Fragments::ofRows(vector.type, vector.layout);
  Type element = getElementTypeOrSelf(vector.type);
  Value first = b.at(shared.address, element, firstRowOf(f));
  b.onlyIf(b.both(b.equal(member, 0), b.less(warp, f.rowParts)), [&] {
    for (auto [i, number] : llvm::enumerate(vector.elements))
      b.store(number, b.at(first, element, f.rowOffset(i)));
  });
}

Placed TileEmitter::fragmentsFrom(const Placed &shared, LayoutAttr layout) {
  Placed tile;
  tile.layout = layout;
  tile.type = shared.type;
  Fragments f = Fragments::of(shared.type, layout);
  tile.elements.resize(f.size());
  if (isSwizzled(shared.layout)) {
    loadFromSwizzled(f, shared, tile);
    return tile;
  }
  if (isSwizzledWords(shared.layout)) {
    loadFromWords(f, shared, tile);
    return tile;
  }
  Type element = getElementTypeOrSelf(shared.type);
  Value first = fragmentsAddress(f, shared);
  forEachRun(f, shared.pitch, KernelBuilder::bytesOf(element),
             [&](unsigned slot, unsigned count, int64_t offset) {
               Value loaded = b.load(KernelBuilder::withCount(element, count),
                                     b.at(first, b.getI8Type(), offset));
               for (auto [i, value] : llvm::enumerate(b.unpack(loaded)))
                 tile.elements[slot + i] = value;
             });
  return tile;
}

Placed TileEmitter::lanesFrom(const Placed &shared, Value row) {
  return vectorFrom(shared, row, LayoutAttr::get(b.getContext(), LayoutKind::lanes, 0, 0));
}

/// Loads row `row` of a matrix in shared memory, or a whole vector. In `lanes` layout, lanes past
/// the end load the last element, so that every address is valid.
Placed TileEmitter::vectorFrom(const Placed &shared, Value row, LayoutAttr layout) {
  auto type = cast<VectorType>(shared.type);
  int64_t length = type.getShape().back();
  Type element = type.getElementType();
  Placed tile;
  tile.layout = layout;
  tile.type = VectorType::get({length}, element);
  Value start = shared.address;
  if (row && !isInBlocks(shared.layout))
    start = b.at(start, b.getI8Type(), b.mul(row, shared.pitch));
  auto add = [&](Value number) {
    tile.elements.push_back(b.load(element, isInBlocks(shared.layout)
                                                ? swizzledElement(shared, row, number)
                                                : b.at(start, element, number)));
  };
  if (isRows(layout)) {
    Fragments f = Fragments::ofRows(tile.type, layout);
    Value first = firstRowOf(f);
    for (unsigned i = 0; i < 2 * f.rowTiles(); ++i)
      add(b.add(first, f.rowOffset(i)));
    return tile;
  }
  for (unsigned i = 0; i < lanesSize(length); ++i) {
    Value number = b.add(lane, i * kWarpSize);
    if ((i + 1) * kWarpSize > length)
      number = b.min(number, b.i32(length - 1));
    add(number);
  }
  return tile;
}

/// A uniform tile with its single element in every slot of `layout`.
Placed TileEmitter::repeated(const Placed &tile, LayoutAttr layout) {
  Placed result = tile;
  result.layout = layout;
  unsigned size = layout.getKind() == LayoutKind::lanes ? lanesSize(lanesLength(tile.type))
                  : isRows(layout) ? 2 * Fragments::ofRows(tile.type, layout).rowTiles()
                                   : Fragments::of(tile.type, layout).size();
  result.elements.assign(size, tile.elements.front());
  return result;
}

void TileEmitter::emitConvert(ConvertOp op) {
  Placed from = placed(op.getTile());
  LayoutAttr to = op.getLayout();
  bool isUniform = from.layout.getKind() == LayoutKind::uniform;
  if (!isInShared(to)) {
    tiles[op.getResult()] = isUniform         ? repeated(from, to)
                            : isFragments(to) ? fragmentsFrom(from, to)
                                              : vectorFrom(from, Value(), to);
    return;
  }
  Placed shared = sharedFor(op);
  writeTile(from, shared);
  tiles[op.getResult()] = shared;
}

/// Stores what each thread has of `tile`.
void TileEmitter::writeTile(Placed tile, const Placed &shared) {
  if (tile.layout.getKind() == LayoutKind::uniform)
    tile = repeated(tile, computedLayout(tile.type, warps));
  if (isFragments(tile.layout))
    writeFragments(tile, shared);
  else if (isRows(tile.layout))
    writeRows(tile, shared);
  else
    writeLanes(tile, shared);
}
