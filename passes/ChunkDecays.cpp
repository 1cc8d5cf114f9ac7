//===- ChunkDecays.cpp - cumulative log gates of a chunk ------------------===//
#include "passes/ChunkDecays.h"
#include <limits>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// One axis
//===----------------------------------------------------------------------===//

Value RunningGates::perStep(TileBuilder &e) const {
  Value sum = gates.front();
  for (Value gate : ArrayRef(gates).drop_front())
    sum = e.add(sum, gate);
  return sum;
}

Value RunningGates::atRead(TileBuilder &e, unsigned count) const {
  bool all = count == gates.size();
  Value at = e.cumsum(perStep(e), walk.reverse, /*exclusive=*/!all);
  if (!all)
    for (Value gate : ArrayRef(gates).take_front(count))
      at = e.add(at, gate);
  return at;
}

Value RunningGates::toEnd(TileBuilder &e) const {
  return e.cumsum(perStep(e), !walk.reverse, /*exclusive=*/walk.decayFirst);
}

Value RunningGates::fromAddToEnd(TileBuilder &e) const {
  Value at = atAdd(e);
  return e.sub(e.overRows(total(e), at), at);
}

Value RunningGates::total(TileBuilder &e) const {
  OpFoldResult last = e.b.getIndexAttr(walk.lastRow());
  Value before = e.row(atAdd(e), last);
  return walk.decayFirst ? before : e.add(before, e.row(perStep(e), last));
}

//===----------------------------------------------------------------------===//
// Per head
//===----------------------------------------------------------------------===//

/// Zero in f64 too, which the interpreter works in; 128 of them stay above -2¹⁷.
static constexpr double kFloor = -760;
/// Up to 2¹⁷, multiples of 2⁻⁷ have 24 bits.
static constexpr double kUnitsPerNat = 128;

HeadDecays::HeadDecays(TileBuilder &e, Walk walk, ArrayRef<Value> gates) : walk(walk) {
  SmallVector<Value> large, small;
  for (Value gate : gates) {
    auto constant = [&](double value) { return e.constant(gate.getType(), value); };
    Value raised = e.larger(gate, constant(kFloor));
    Value units = e.floor(e.mul(raised, constant(kUnitsPerNat)));
    large.push_back(e.mul(units, constant(1 / kUnitsPerNat)));
    small.push_back(e.sub(raised, large.back()));
  }
  coarse.emplace(walk, large);
  fine.emplace(walk, small);
}

Value HeadDecays::fromStart(TileBuilder &e, unsigned count) const {
  return e.exp(e.add(coarse->atRead(e, count), fine->atRead(e, count)));
}

Value HeadDecays::toEnd(TileBuilder &e) const {
  return e.exp(e.add(coarse->fromAddToEnd(e), fine->fromAddToEnd(e)));
}

Value HeadDecays::total(TileBuilder &e) const {
  return e.exp(e.add(coarse->total(e), fine->total(e)));
}

Value HeadDecays::between(TileBuilder &e, unsigned count, bool inclusive) const {
  auto difference = [&](const RunningGates &gates) {
    SmallVector<int64_t> square = {walk.chunk, walk.chunk};
    return e.sub(e.spread(gates.atRead(e, count), 0, square), e.spread(gates.atAdd(e), 1, square));
  };
  Value exponent = e.add(difference(*coarse), difference(*fine));
  return e.exp(e.keep(exponent, walk.reverse, !inclusive, -std::numeric_limits<float>::infinity()));
}
