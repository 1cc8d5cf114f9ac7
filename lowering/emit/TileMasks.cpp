//===- TileMasks.cpp - causal masks and windows ----------------------------===//
//
// Emits ops that replace elements of a tile depending on their row and column: the
// causal mask, and the window of rows and columns that exist.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

arith::CmpIPredicate ejk::sideOfDiagonal(bool upper, bool strict) {
  return upper ? (strict ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sge)
               : (strict ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle);
}

/// Replaces elements off the chosen side of the diagonal by `otherwise`.
void TileEmitter::maskSide(Placed &tile, bool upper, bool strict, Value otherwise) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  // Column minus row of this thread's first element.
  Value distance = b.sub(firstColumnOf(f), firstRowOf(f));
  if (f.transposed)
    distance = b.sub(b.i32(0), distance);
  f.forEachElement([&](unsigned slot, unsigned row, unsigned column) {
    int64_t more = Fragments::columnOffset(column) - f.rowOffset(row);
    Value kept = b.make<arith::CmpIOp>(sideOfDiagonal(upper, strict), distance,
                                       b.i32(f.transposed ? more : -more));
    tile.elements[slot] = b.make<arith::SelectOp>(kept, tile.elements[slot], otherwise);
  });
}

void TileEmitter::emitMask(MaskOp op) {
  Placed tile = placed(op.getTile());
  maskSide(tile, op.getUpper(), op.getStrict(), b.make<arith::ConstantOp>(op.getOtherwiseAttr()));
  tiles[op.getResult()] = tile;
}

/// The condition `from` ≤ first + offset < `to` for an index below `size`; null if it always holds.
/// In a branch, registers are short: the distance from bound to first is then one register for all
/// elements of a thread.
Value TileEmitter::isWithin(Value from, Value to, int64_t size, Value first, int64_t offset) {
  APInt constant;
  auto isConstant = [&](Value bound) { return matchPattern(bound, m_ConstantInt(&constant)); };
  auto compare = [&](arith::CmpIPredicate predicate, Value index) -> Value {
    // Clamp 64-bit bounds, so that they fit 32 bits. Narrow bounds are small already.
    Value bound = scalar(index);
    if (!bound.getType().isInteger(32))
      bound = b.narrow(b.min(b.max(bound, b.i64(0)), b.i64(size)));
    if (inBranch)
      return b.make<arith::CmpIOp>(predicate, b.i32(offset), b.sub(bound, first));
    return b.make<arith::CmpIOp>(predicate, b.add(first, offset), bound);
  };
  Value inside;
  if (!isConstant(from) || constant.getSExtValue() > 0)
    inside = compare(arith::CmpIPredicate::sge, from);
  if (!isConstant(to) || constant.getSExtValue() < size)
    inside = b.both(inside, compare(arith::CmpIPredicate::slt, to));
  return inside;
}

void TileEmitter::emitWindow(WindowOp op) {
  Placed tile = placed(op.getTile());
  Value otherwise = b.make<arith::ConstantOp>(op.getOtherwiseAttr());
  auto type = cast<VectorType>(tile.type);
  auto isInside = [&](unsigned dim, Value first, int64_t offset) {
    return isWithin(op.getFrom()[dim], op.getTo()[dim], type.getDimSize(dim), first, offset);
  };
  auto keepIf = [&](unsigned slot, Value inside) {
    if (inside)
      tile.elements[slot] = b.make<arith::SelectOp>(inside, tile.elements[slot], otherwise);
  };
  if (tile.layout.getKind() == LayoutKind::lanes) {
    for (unsigned i = 0; i < tile.elements.size(); ++i)
      keepIf(i, isInside(0, lane, i * kWarpSize));
    tiles[op.getResult()] = tile;
    return;
  }
  Fragments f = Fragments::of(tile.type, tile.layout);
  Value firstRow = firstRowOf(f), firstColumn = firstColumnOf(f);
  SmallVector<Value> rowInside, columnInside;
  for (unsigned i = 0; i < 2 * f.rowTiles(); ++i)
    rowInside.push_back(isInside(f.storedDim(0), firstRow, f.rowOffset(i)));
  for (unsigned i = 0; i < 2 * f.columnTiles(); ++i)
    columnInside.push_back(isInside(f.storedDim(1), firstColumn, Fragments::columnOffset(i)));
  f.forEachElement([&](unsigned slot, unsigned row, unsigned column) {
    keepIf(slot, b.both(rowInside[row], columnInside[column]));
  });
  tiles[op.getResult()] = tile;
}
