//===- TileConvert.cpp - tiles from one layout to another ------------------===//
#include "lowering/TileEmitter.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Which part of a matrix a thread has
//===----------------------------------------------------------------------===//

/// The first row of this warp's part.
Value TileEmitter::partRow(const Fragments &f) {
  if (f.rowParts == 1)
    return b.i32(0);
  return b.mul(b.rem(b.div(warp, f.columnParts), f.rowParts), f.partRows());
}

/// The first column of this warp's part.
Value TileEmitter::partColumn(const Fragments &f) {
  if (f.columnParts == 1)
    return b.i32(0);
  return b.mul(b.rem(warp, f.columnParts), f.partColumns());
}

Value TileEmitter::firstRowOf(const Fragments &f) { return b.add(partRow(f), group); }
Value TileEmitter::firstColumnOf(const Fragments &f) {
  return b.add(partColumn(f), b.mul(member, 2));
}

/// Where this thread's first element of a matrix lies in `shared`; every other
/// one is a constant distance away.
Value TileEmitter::fragmentsAddress(const Fragments &f, const Placed &shared) {
  unsigned bytes = KernelBuilder::bytesOf(getElementTypeOrSelf(shared.type));
  Value offset = b.add(b.mul(firstRowOf(f), shared.pitch), b.mul(firstColumnOf(f), bytes));
  return b.at(shared.address, b.getI8Type(), offset);
}

/// Calls `visit` for each pair of neighbours that a thread has: the number of
/// the first, and their distance in bytes from the thread's first element.
static void forEachPair(const Fragments &f, unsigned pitch, unsigned bytes,
                        llvm::function_ref<void(unsigned, int64_t)> visit) {
  for (unsigned m = 0; m < f.rowTiles(); ++m)
    for (unsigned half : {0, 1})
      for (unsigned n = 0; n < f.columnTiles(); ++n)
        visit(f.index(m, n, 2 * half), int64_t(16 * m + 8 * half) * pitch + 8 * n * bytes);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

void TileEmitter::writeFragments(const Placed &tile, const Placed &shared) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  unsigned bytes = KernelBuilder::bytesOf(getElementTypeOrSelf(shared.type));
  beforeWrite(shared.range);
  Value first = fragmentsAddress(f, shared);
  forEachPair(f, shared.pitch, bytes, [&](unsigned slot, int64_t offset) {
    b.store(b.pack({tile.elements[slot], tile.elements[slot + 1]}),
            b.at(first, b.getI8Type(), offset));
  });
}

Placed TileEmitter::fragmentsFrom(const Placed &shared, LayoutAttr layout) {
  Placed tile;
  tile.layout = layout;
  tile.type = shared.type;
  Fragments f = Fragments::of(shared.type, layout);
  Type element = getElementTypeOrSelf(shared.type);
  tile.elements.resize(f.size());
  beforeRead(shared.range);
  Value first = fragmentsAddress(f, shared);
  forEachPair(f, shared.pitch, KernelBuilder::bytesOf(element), [&](unsigned slot, int64_t offset) {
    Value pair = b.load(VectorType::get({2}, element), b.at(first, b.getI8Type(), offset));
    tile.elements[slot] = b.extract(pair, 0);
    tile.elements[slot + 1] = b.extract(pair, 1);
  });
  return tile;
}

/// Row `row` of a matrix in shared memory, or all of a vector, over lanes. What
/// lies beyond the end repeats the last element.
Placed TileEmitter::lanesFrom(const Placed &shared, Value row) {
  auto type = cast<VectorType>(shared.type);
  int64_t length = type.getShape().back();
  Type element = type.getElementType();
  Placed tile;
  tile.layout = LayoutAttr::get(b.getContext(), LayoutKind::lanes, 0, 0);
  tile.type = VectorType::get({length}, element);
  beforeRead(shared.range);
  Value start = shared.address;
  if (row)
    start = b.at(start, b.getI8Type(), b.mul(row, shared.pitch));
  for (unsigned i = 0; i < lanesSize(length); ++i) {
    Value number = b.add(lane, i * kWarpSize);
    if ((i + 1) * kWarpSize > length)
      number = b.min(number, b.i32(length - 1));
    tile.elements.push_back(b.load(element, b.at(start, element, number)));
  }
  return tile;
}

/// A uniform tile with its one element everywhere.
Placed TileEmitter::repeated(const Placed &tile, LayoutAttr layout) {
  Placed result = tile;
  result.layout = layout;
  unsigned size = layout.getKind() == LayoutKind::lanes ? lanesSize(lanesLength(tile.type))
                                                        : Fragments::of(tile.type, layout).size();
  result.elements.assign(size, tile.elements.front());
  return result;
}

void TileEmitter::emitConvert(ConvertOp op) {
  Placed from = placed(op.getTile());
  LayoutAttr to = op.getLayout();
  LayoutKind kind = from.layout.getKind();
  if (to.getKind() == LayoutKind::shared) {
    if (kind == LayoutKind::uniform)
      from = repeated(from, computedLayout(from.type, warps));
    Placed shared = newShared(from.type);
    writeFragments(from, shared);
    tiles[op.getResult()] = shared;
    return;
  }
  tiles[op.getResult()] = kind == LayoutKind::uniform             ? repeated(from, to)
                          : to.getKind() == LayoutKind::fragments ? fragmentsFrom(from, to)
                                                                  : lanesFrom(from, Value());
}
