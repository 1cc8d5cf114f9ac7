//===- ExactPath.cpp - a chunk step by step, where exponents are too large -===//
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/NumericRange.h"
#include "passes/chunk/ChunkedState.h"
#include <limits>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Exact path
//===----------------------------------------------------------------------===//

Value ChunkedState::fewRowsExponent(TileBuilder &e) {
  Type type = e.f32({4});
  return e.select(hasFewRows, e.constant(type, std::numeric_limits<double>::infinity()),
                  e.constant(type, 0));
}

ChunkedState::Computed ChunkedState::withGuard(Value state) {
  SmallVector<Type> types = {state.getType()};
  for (const StateChain::Read &read : chain.reads)
    types.push_back(body.f32({plan.chunk, body.shapeOf(state)[1 - read.along]}));
  for (const StateChain::Correction &correction : chain.corrections)
    if (isGiven(correction))
      types.push_back(body.f32({plan.chunk, body.shapeOf(state)[correction.dim]}));
  for (auto [r, read] : llvm::enumerate(chain.reads))
    types.append(read.pairings.size(), types[1 + r]);
  for (Value carried : saved->carried)
    types.push_back(carried.getType());
  Value inRange = !form             ? isInRange(body)
                  : form->isGuarded ? areBlocksInRange(body)
                                    : body.rangeGuard(range::kGuardNats, fewRowsExponent(body));
  for (auto &decays : ArrayRef(chain.decays).drop_front())
    for (DecayOp decay : decays)
      tiles.setRange(decay.getGate(), inRange);
  auto paths = tile::GuardedOp::create(body.b, body.loc, types, inRange);
  for (bool isFast : {true, false}) {
    OpBuilder b = OpBuilder::atBlockEnd(isFast ? paths.getFastBlock() : paths.getExactBlock());
    TileBuilder e(b, body.loc);
    tile::YieldOp::create(b, body.loc, isFast ? byMatmuls(e, state) : onExactPath(e, state));
  }
  return paths.getResults();
}

ChunkedState::Computed ChunkedState::onExactPath(TileBuilder &e, Value state) {
  Computed initial = {state};
  for (const StateChain::Read &read : chain.reads)
    initial.push_back(e.zeros({plan.chunk, e.shapeOf(state)[1 - read.along]}));
  for (const StateChain::Correction &correction : chain.corrections)
    if (isGiven(correction))
      initial.push_back(e.zeros({plan.chunk, e.shapeOf(state)[correction.dim]}));
  Value zero = e.index(0), one = e.index(1), size = e.index(plan.chunk);
  Value count = arith::MinSIOp::create(e.b, e.loc, rows, size);
  auto loop = scf::ForOp::create(
      e.b, e.loc, zero, count, one, initial,
      [&](OpBuilder &b, Location loc, Value step, ValueRange carried) {
        TileBuilder inner(b, loc);
        Value row = isReverse() ? inner.subIndex(inner.subIndex(count, one), step) : step;
        scf::YieldOp::create(b, loc, oneStep(inner, row, carried));
      });
  Computed computed(loop.getResults());
  for (auto [r, partners] : llvm::enumerate(pairingTiles))
    for (Value partner : partners)
      computed.push_back(e.mul(partner, computed[1 + r]));
  // The sums with saved states first: the saved states are as large as the state.
  if (plan.options.saveEntries)
    for (unsigned number = 0; number < chain.checkpoints.size(); ++number)
      entrySums.push_back(productWithEntry(e, number, state, /*inBasis=*/false));
  for (unsigned number = 0; number < chain.checkpoints.size(); ++number)
    computed.push_back(atCheckpoint(e, number, state, /*inBasis=*/false));
  save(e, computed.front(), /*inBasis=*/false);
  return computed;
}

ChunkedState::Computed ChunkedState::oneStep(TileBuilder &e, Value row, ValueRange carried) {
  Value state = carried.front();
  ArrayRef<int64_t> shape = e.shapeOf(state);
  Computed computed(carried);
  StateChain::Place seen = {0, 0, 0};
  unsigned adds = 0, given = 1 + chain.reads.size();
  SmallVector<Value> reads(chain.reads.size());
  auto readHere = [&] {
    for (auto [r, read] : llvm::enumerate(chain.reads)) {
      if (read.adds != adds || seen != read.decays)
        continue;
      unsigned along = read.along;
      Value x = e.broadcast(e.row(readTiles[r], row), along, shape);
      reads[r] = e.sum(e.mul(state, x), along);
      Value whole = reads[r];
      if (read.shiftedBy)
        whole = e.add(whole, e.row(shiftTiles[*read.shiftedBy], row));
      computed[r + 1] = e.withRow(computed[r + 1], whole, row);
    }
  };
  readHere();
  for (Operation *link : chain.links) {
    if (auto decay = dyn_cast<DecayOp>(link)) {
      unsigned axis = unsigned(decay.getAxis());
      Value scale = e.exp(e.row(gateTiles[axis][seen[axis]++], row));
      state = axis ? times(e, state, scale, axis - 1)
                   : e.mul(state, e.broadcast(scale, cast<VectorType>(state.getType())));
    } else {
      Value outer;
      for (unsigned dim : {0, 1}) {
        const StateChain::Correction *correction = chain.correctionOf(adds);
        bool corrects = correction && correction->dim == dim;
        Value vector = corrects ? correctedRow(e, correction - chain.corrections.begin(), row, reads)
                                : e.row(addTiles[dim][adds], row);
        if (corrects && isGiven(*correction)) {
          computed[given] = e.withRow(computed[given], vector, row);
          ++given;
        }
        Value wide = e.broadcast(vector, dim, shape);
        outer = outer ? e.mul(outer, wide) : wide;
      }
      state = e.add(state, outer);
      ++adds;
    }
    readHere();
  }
  computed.front() = state;
  return computed;
}
