//===- ChunkDecays.cpp - cumulative log gates of a chunk ------------------===//
#include "passes/chunk/ChunkDecays.h"
#include "passes/NumericRange.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// One axis
//===----------------------------------------------------------------------===//

Value RunningGates::sumOf(TileBuilder &e, ArrayRef<Value> gates) {
  Value sum = gates.front();
  for (Value gate : gates.drop_front())
    sum = e.add(sum, gate);
  return sum;
}

Value RunningGates::perStep(TileBuilder &e) const { return sumOf(e, gates); }

Value RunningGates::upTo(TileBuilder &e, unsigned place) const {
  bool all = place == gates.size();
  // The cumsums of gate gradients are inclusive. Inclusive ones here let a kernel share one
  // triangular matrix.
  bool lessOwn = !all && finite;
  Value at = e.cumsum(perStep(e), direction.reverse, /*exclusive=*/!all && !lessOwn);
  if (lessOwn)
    at = e.sub(at, perStep(e));
  if (!all)
    for (Value gate : ArrayRef(gates).take_front(place))
      at = e.add(at, gate);
  return at;
}

Value RunningGates::around(TileBuilder &e, int64_t row) const {
  // In a backward pass, the same cumsums with the opposite sign: Σ_{t>j} − Σ_{t>row} = Σ_{t≤row} −
  // Σ_{t≤j}, and Σ_{t≥j} − Σ_{t>row} = Σ_{t≤row} − Σ_{t<j}.
  bool exclusive = direction.reverse == direction.decayFirst;
  Value sums = e.cumsum(perStep(e), /*reverse=*/false, exclusive, row + exclusive);
  return direction.reverse ? e.neg(sums) : sums;
}

Value RunningGates::aroundAt(TileBuilder &e, Value around, unsigned place, bool negative) const {
  Value at = negative ? e.neg(around) : around;
  if (place == base())
    return at;
  Value own = sumOf(e, direction.decayFirst ? ArrayRef(gates).drop_front(place)
                                            : ArrayRef(gates).take_front(place));
  return direction.decayFirst == negative ? e.add(at, own) : e.sub(at, own);
}

Value RunningGates::startOf(TileBuilder &e, Value around) const {
  OpFoldResult first = e.b.getIndexAttr(direction.firstRow());
  Value less = e.row(around, first);
  return direction.decayFirst ? e.sub(e.row(perStep(e), first), less) : e.neg(less);
}

Value RunningGates::restOf(TileBuilder &e, Value around) const {
  OpFoldResult last = e.b.getIndexAttr(direction.lastRow());
  Value sum = e.row(around, last);
  return direction.decayFirst ? sum : e.add(e.row(perStep(e), last), sum);
}

SmallVector<Value> RunningGates::endsOf(TileBuilder &e, Value around) const {
  Value sums = direction.reverse ? e.neg(around) : around, gate = perStep(e);
  bool exclusive = direction.reverse == direction.decayFirst;
  int64_t last = direction.chunk - 1;
  auto rowOf = [&](Value tile, int64_t row) { return e.row(tile, e.b.getIndexAttr(row)); };
  // Exclusive sums are those of the row before, inclusive. So both have the sums from the first row
  // to the one before the last, and these ends are computed from them.
  Value first = e.sub(rowOf(gate, 0), rowOf(sums, exclusive));
  Value end = e.add(rowOf(gate, last), rowOf(sums, exclusive ? last : last - 1));
  return {first, end};
}

Value RunningGates::fromAddToEnd(TileBuilder &e, unsigned place) const {
  Value at = upTo(e, place);
  return e.sub(e.overRows(total(e), at), at);
}

Value RunningGates::total(TileBuilder &e) const {
  OpFoldResult last = e.b.getIndexAttr(direction.lastRow());
  Value before = e.row(upTo(e, base()), last);
  return direction.decayFirst ? before : e.add(before, e.row(perStep(e), last));
}

Value RunningGates::toEnd(TileBuilder &e, unsigned place) const {
  Value sum = e.cumsum(perStep(e), !direction.reverse, /*exclusive=*/place != 0);
  if (place)
    for (Value gate : ArrayRef(gates).drop_front(place))
      sum = e.add(sum, gate);
  return sum;
}

Value RunningGates::totalOf(TileBuilder &e, Value toEnd) const {
  OpFoldResult first = e.b.getIndexAttr(direction.firstRow());
  Value after = e.row(toEnd, first);
  return direction.decayFirst ? e.add(after, e.row(perStep(e), first)) : after;
}

Value RunningGates::afterLast(TileBuilder &e, LastPlace last) const {
  return e.row(sumOf(e, ArrayRef(gates).drop_front(last.place)), last.row);
}

//===----------------------------------------------------------------------===//
// Per head
//===----------------------------------------------------------------------===//

double ejk::gateFloor(Type operandType) {
  return operandType.isF32() ? range::kZeroGateOfF64 : range::kZeroGate;
}

/// Multiples of 2⁻⁷ up to 2¹⁷ have 24 bits.
static constexpr double kUnitsPerNat = 128;

HeadDecays::HeadDecays(TileBuilder &e, ScanDirection direction, ArrayRef<Value> gates,
                       Type operandType, bool binary)
    : direction(direction), binary(binary && !operandType.isF32()) {
  bool exact = operandType.isF32();
  SmallVector<Value> large, small;
  for (Value gate : gates) {
    auto constant = [&](double value) { return e.constant(gate.getType(), value); };
    Value raised = e.larger(gate, constant(gateFloor(operandType)));
    if (!exact) {
      large.push_back(this->binary ? e.mul(raised, constant(llvm::numbers::log2e)) : raised);
      continue;
    }
    Value units = e.floor(e.mul(raised, constant(kUnitsPerNat)));
    large.push_back(e.mul(units, constant(1 / kUnitsPerNat)));
    small.push_back(e.sub(raised, large.back()));
  }
  parts.push_back(RunningGates(direction, large));
  if (exact)
    parts.push_back(RunningGates(direction, small));
}

Value HeadDecays::sum(TileBuilder &e, llvm::function_ref<Value(const RunningGates &)> take) const {
  Value sum = take(parts.front());
  for (const RunningGates &part : ArrayRef(parts).drop_front())
    sum = e.add(sum, take(part));
  return sum;
}

Value HeadDecays::exponential(TileBuilder &e, Value sum) const {
  return binary ? e.exp2(sum) : e.exp(sum);
}

Value HeadDecays::scaled(TileBuilder &e, Value sum, double scale) const {
  return scale == 1 ? sum : e.add(sum, e.constant(sum.getType(), std::log2(scale)));
}

Value HeadDecays::fromStart(TileBuilder &e, unsigned read, double scale) const {
  Value exponent = sum(e, [&](const RunningGates &part) {
    if (!direction.reverse || read != part.base())
      return part.upTo(e, read);
    Value toEnd = part.toEnd(e, read);
    return e.sub(e.overRows(part.totalOf(e, toEnd), toEnd), toEnd);
  });
  return exponential(e, scaled(e, exponent, scale));
}

Value HeadDecays::toEnd(TileBuilder &e, unsigned add, std::optional<LastPlace> last) const {
  Value exponent = sum(e, [&](const RunningGates &part) {
    Value all = direction.reverse ? part.toEnd(e, add) : part.fromAddToEnd(e, add);
    return last ? e.sub(all, e.overRows(part.afterLast(e, *last), all)) : all;
  });
  if (last) {
    // Rows after the sequence's end have L = 0, which may exceed that of the last step by more nats
    // than f32 has. These rows are zero, so a finite factor keeps them so.
    double limit = range::kSumNats * (binary ? llvm::numbers::log2e : 1);
    exponent = e.smaller(exponent, e.constant(exponent.getType(), limit));
  }
  return exponential(e, exponent);
}

Value HeadDecays::total(TileBuilder &e, std::optional<LastPlace> last) const {
  return exponential(e, sum(e, [&](const RunningGates &part) {
                       Value all = direction.reverse ? part.totalOf(e, part.toEnd(e, part.base()))
                                                     : part.total(e);
                       return last ? e.sub(all, part.afterLast(e, *last)) : all;
                     }));
}

Value HeadDecays::afterLast(TileBuilder &e, LastPlace last) const {
  return exponential(e,
                     sum(e, [&](const RunningGates &part) { return part.afterLast(e, last); }));
}

Value HeadDecays::between(TileBuilder &e, unsigned read, unsigned add, bool inclusive,
                          double scale) const {
  SmallVector<int64_t> square = {direction.chunk, direction.chunk};
  // The later of the two steps is the row.
  auto difference = [&](Value ofRead, Value ofAdd) {
    return e.sub(e.broadcast(scaled(e, ofRead, scale), direction.reverse, square),
                 e.broadcast(ofAdd, !direction.reverse, square));
  };
  Value exponent = sum(e, [&](const RunningGates &part) {
    if (!direction.reverse || read != part.base() || add != part.base())
      return difference(part.upTo(e, read), part.upTo(e, add));
    // L_j − L_i, computed as the forward pass computes R_i − W_j.
    Value toEnd = part.toEnd(e, add);
    return e.sub(e.broadcast(scaled(e, toEnd, scale), 0, square), e.broadcast(toEnd, 1, square));
  });
  return exponential(
      e, e.mask(exponent, /*upper=*/false, !inclusive, -std::numeric_limits<float>::infinity()));
}
