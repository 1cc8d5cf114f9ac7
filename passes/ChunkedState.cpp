//===- ChunkedState.cpp - one state's chunk, in products of tiles ---------===//
#include "passes/ChunkedState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace ejk;

/// See the header. Of each of `axes` gated axes.
static double rangeLimit(unsigned axes) { return axes == 2 ? 32 : 64; }

ChunkedState::ChunkedState(const ChunkPlan &plan, const StateChain &chain, ChunkTiles &tiles,
                           TileBuilder &body, Value rows)
    : plan(plan), chain(chain), tiles(tiles), body(body), rows(rows),
      walk{bool(plan.scan.getReverse()), chain.decayFirst, plan.chunk} {}

void ChunkedState::collectTiles() {
  for (auto [axis, decays] : llvm::enumerate(chain.decays))
    for (DecayOp decay : decays)
      gateTiles[axis].push_back(tiles.masked(decay.getGate(), isSliced(int(axis) - 1)));
  for (OuterAddOp add : chain.adds) {
    addTiles[0].push_back(tiles.masked(add.getKey(), isSliced(0)));
    addTiles[1].push_back(tiles.masked(add.getValue(), isSliced(1)));
  }
  for (const StateChain::Read &read : chain.reads) {
    readTiles.push_back(tiles.masked(read.vector, isSliced(read.along)));
    SmallVector<Value> &partners = pairingTiles.emplace_back();
    for (auto [product, vector] : read.pairings)
      partners.push_back(tiles.masked(vector, isSliced(1 - read.along)));
  }
}

Value ChunkedState::compute(Value state, ArrayRef<Value> saved) {
  collectTiles();
  savedStates.assign(saved.begin(), saved.end());
  if (!chain.saves.empty())
    lastRow = walk.reverse ? body.index(0) : tiles.lastRow();
  if (chain.isGated(Axis::head))
    head = HeadDecays(body, walk, gateTiles[0]);
  Computed computed = isGated(0) || isGated(1) ? byChoice(state) : byProducts(body, state);
  ArrayRef<Value> next = ArrayRef(computed).drop_front();
  for (const StateChain::Read &read : chain.reads)
    tiles.setRead(read.op, tiles.scaled(next.consume_front(), read.factors));
  for (const StateChain::Read &read : chain.reads)
    for (auto [product, vector] : read.pairings)
      tiles.setPairing(product, next.consume_front());
  anchorEntries.assign(next.begin(), next.begin() + chain.anchors.size());
  savedValues.assign(next.begin() + chain.anchors.size(), next.end());
  return computed.front();
}

//===----------------------------------------------------------------------===//
// The middle row's basis
//===----------------------------------------------------------------------===//

void ChunkedState::findBases() {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim)) {
      bases[dim].gates.emplace(walk, gateTiles[dim + 1]);
      bases[dim].middle =
          body.row(bases[dim].gates->atAdd(body), body.b.getIndexAttr(plan.chunk / 2));
    }
}

Value ChunkedState::readExponent(TileBuilder &e, unsigned dim, const StateChain::Read &read) {
  Value at = bases[dim].gates->atRead(e, read.decays[dim + 1]);
  return e.sub(at, e.overRows(bases[dim].middle, at));
}

Value ChunkedState::addExponent(TileBuilder &e, unsigned dim) {
  Value at = bases[dim].gates->atAdd(e);
  return e.sub(e.overRows(bases[dim].middle, at), at);
}

Value ChunkedState::isInRange(TileBuilder &e) {
  SmallVector<Value> exponents;
  for (unsigned dim = 0; dim < 2; ++dim) {
    if (!isGated(dim))
      continue;
    // Differences of sums that are large lose what is small in them.
    exponents.push_back(bases[dim].middle);
    exponents.push_back(addExponent(e, dim));
    unsigned all = chain.decays[dim + 1].size();
    llvm::SmallSet<unsigned, 2> seen = {walk.decayFirst ? all : 0u};
    for (const StateChain::Read &read : chain.reads)
      if (seen.insert(read.decays[dim + 1]).second)
        exponents.push_back(readExponent(e, dim, read));
  }
  // A sum that is -inf makes differences NaN, and NaN is not in range.
  return e.within(rangeLimit(isGated(0) + isGated(1)), exponents);
}

//===----------------------------------------------------------------------===//
// By products
//===----------------------------------------------------------------------===//

Value ChunkedState::times(TileBuilder &e, Value state, Value row, unsigned dim) {
  return e.mul(state, e.spread(row, dim, e.shapeOf(state)));
}

Value ChunkedState::addTile(TileBuilder &e, unsigned add, unsigned dim) {
  Value tile = addTiles[dim][add];
  return isGated(dim) ? e.mul(tile, e.exp(addExponent(e, dim))) : tile;
}

Value ChunkedState::readByProducts(TileBuilder &e, unsigned r, Value basisState) {
  const StateChain::Read &read = chain.reads[r];
  unsigned along = read.along, other = 1 - along;
  auto round = [&](Value tile) { return e.round(tile, plan.productType); };
  Value x = readTiles[r];
  if (isGated(along))
    x = e.mul(x, e.exp(readExponent(e, along, read)));
  x = round(x);
  int64_t channels = e.shapeOf(basisState)[other];
  Value sum = e.dot(x, false, round(basisState), along == 1, e.zeros({plan.chunk, channels}));
  if (head)
    sum = e.mul(sum, e.spread(head->fromStart(e, read.decays[0]), 0, e.shapeOf(sum)));
  for (unsigned add = 0; add < chain.adds.size(); ++add) {
    bool inclusive = add < read.adds;
    Value p =
        e.dot(x, false, round(addTile(e, add, along)), true, e.zeros({plan.chunk, plan.chunk}));
    if (head)
      p = e.mul(p, head->between(e, read.decays[0], inclusive));
    // In the basis, what is not to be seen may be anything, infinite included.
    if (!head || isGated(along))
      p = e.keep(p, walk.reverse, !inclusive, 0.0f);
    sum = e.dot(round(p), false, round(addTile(e, add, other)), false, sum);
  }
  return sum;
}

Value ChunkedState::addend(TileBuilder &e, unsigned add, unsigned dim) {
  Value tile = addTile(e, add, dim);
  if (head && dim == 1)
    tile = e.mul(tile, e.spread(head->toEnd(e), 0, e.shapeOf(tile)));
  return e.round(tile, plan.productType);
}

Value ChunkedState::updateByProducts(TileBuilder &e, Value basisState) {
  Value state = basisState;
  if (head)
    state = e.mul(state, e.broadcast(head->total(e), cast<VectorType>(state.getType())));
  for (unsigned add = 0; add < chain.adds.size(); ++add)
    state = e.dot(addend(e, add, 0), true, addend(e, add, 1), false, state);
  return state;
}

/// From the basis to what the chunk's end decays the state to.
Value ChunkedState::toEnd(TileBuilder &e, Value state) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      state = times(e, state, e.exp(e.sub(bases[dim].gates->total(e), bases[dim].middle)), dim);
  return state;
}

Value ChunkedState::beforeAdds(TileBuilder &e, const StateChain::Save &save, Value state,
                               bool inBasis) {
  for (unsigned add = save.adds; add < chain.adds.size(); ++add) {
    auto rowOf = [&](unsigned dim) {
      Value row = e.row(inBasis ? e.widen(addend(e, add, dim)) : addTiles[dim][add], lastRow);
      return e.spread(row, dim, e.shapeOf(state));
    };
    state = e.sub(state, e.mul(rowOf(0), rowOf(1)));
  }
  return state;
}

/// Σ A ⊙ S, with A as reads round it.
Value ChunkedState::anchorByProducts(TileBuilder &e, unsigned number, Value basisState) {
  Value product = e.mul(e.widen(e.round(basisState, plan.productType)), savedStates[number]);
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim)) {
      Value zero = e.zeros({e.shapeOf(product)[dim]});
      product = times(e, product, e.exp(e.sub(zero, bases[dim].middle)), dim);
    }
  AnchorOp anchor = chain.anchors[number];
  return e.sum(product, anchor.getAxis() == Axis::value);
}

ChunkedState::Computed ChunkedState::byProducts(TileBuilder &e, Value state) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      state = times(e, state, e.exp(bases[dim].middle), dim);
  // Reads first: the update may then take the state's place.
  Computed computed = {Value()};
  Computed paired;
  for (auto [r, read] : llvm::enumerate(chain.reads)) {
    Value inBasis = readByProducts(e, r, state), factor;
    if (isGated(1 - read.along))
      factor = e.exp(readExponent(e, 1 - read.along, read));
    computed.push_back(factor ? e.mul(inBasis, factor) : inBasis);
    for (Value partner : pairingTiles[r]) {
      Value rounded = e.round(factor ? e.mul(partner, factor) : partner, plan.productType);
      paired.push_back(e.mul(e.widen(rounded), inBasis));
    }
  }
  llvm::append_range(computed, paired);
  for (unsigned number = 0; number < chain.anchors.size(); ++number)
    computed.push_back(anchorByProducts(e, number, state));
  Value end = updateByProducts(e, state);
  for (const StateChain::Save &save : chain.saves)
    computed.push_back(toEnd(e, beforeAdds(e, save, end, /*inBasis=*/true)));
  computed.front() = toEnd(e, end);
  return computed;
}

//===----------------------------------------------------------------------===//
// By steps
//===----------------------------------------------------------------------===//

ChunkedState::Computed ChunkedState::byChoice(Value state) {
  findBases();
  SmallVector<Type> types = {state.getType()};
  for (const StateChain::Read &read : chain.reads)
    types.push_back(body.f32({plan.chunk, body.shapeOf(state)[1 - read.along]}));
  for (auto [r, read] : llvm::enumerate(chain.reads))
    types.append(read.pairings.size(), types[1 + r]);
  for (AnchorOp anchor : chain.anchors)
    types.push_back(body.f32({body.shapeOf(state)[anchor.getAxis() == Axis::key]}));
  types.append(chain.saves.size(), state.getType());
  auto choice = scf::IfOp::create(body.b, body.loc, types, isInRange(body),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  for (bool inRange : {true, false}) {
    OpBuilder b = OpBuilder::atBlockEnd(inRange ? choice.thenBlock() : choice.elseBlock());
    TileBuilder e(b, body.loc);
    scf::YieldOp::create(b, body.loc, inRange ? byProducts(e, state) : bySteps(e, state));
  }
  return choice.getResults();
}

ChunkedState::Computed ChunkedState::bySteps(TileBuilder &e, Value state) {
  Computed initial = {state};
  for (const StateChain::Read &read : chain.reads)
    initial.push_back(e.zeros({plan.chunk, e.shapeOf(state)[1 - read.along]}));
  Value zero = e.index(0), one = e.index(1), size = e.index(plan.chunk);
  Value count = arith::MinSIOp::create(e.b, e.loc, rows, size);
  auto loop = scf::ForOp::create(
      e.b, e.loc, zero, count, one, initial,
      [&](OpBuilder &b, Location loc, Value step, ValueRange carried) {
        TileBuilder inner(b, loc);
        Value row = walk.reverse ? inner.subIndex(inner.subIndex(count, one), step) : step;
        scf::YieldOp::create(b, loc, oneStep(inner, row, carried));
      });
  Computed computed(loop.getResults());
  for (auto [r, partners] : llvm::enumerate(pairingTiles))
    for (Value partner : partners)
      computed.push_back(e.mul(partner, computed[1 + r]));
  for (auto [anchor, saved] : llvm::zip(SmallVector<AnchorOp>(chain.anchors), savedStates))
    computed.push_back(e.sum(e.mul(state, saved), anchor.getAxis() == Axis::value));
  for (const StateChain::Save &save : chain.saves)
    computed.push_back(beforeAdds(e, save, computed.front(), /*inBasis=*/false));
  return computed;
}

ChunkedState::Computed ChunkedState::oneStep(TileBuilder &e, Value row, ValueRange carried) {
  Value state = carried.front();
  ArrayRef<int64_t> shape = e.shapeOf(state);
  Computed computed(carried);
  unsigned seen[3] = {0, 0, 0}, adds = 0;
  auto readHere = [&] {
    for (auto [r, read] : llvm::enumerate(chain.reads)) {
      if (read.adds != adds || !std::equal(seen, seen + 3, read.decays))
        continue;
      unsigned along = read.along;
      Value x = e.spread(e.row(readTiles[r], row), along, shape);
      Value sum = e.sum(e.mul(state, x), along), &tile = computed[r + 1];
      Value next = e.addIndex(row, e.index(1)), zero = e.index(0);
      Value here =
          e.window(e.overRows(sum, tile), {row, zero}, {next, e.index(e.shapeOf(tile)[1])});
      tile = e.add(tile, here);
    }
  };
  readHere();
  for (Operation *link : chain.links) {
    if (auto decay = dyn_cast<DecayOp>(link)) {
      unsigned axis = unsigned(decay.getAxis());
      Value factor = e.exp(e.row(gateTiles[axis][seen[axis]++], row));
      state = axis ? times(e, state, factor, axis - 1)
                   : e.mul(state, e.broadcast(factor, cast<VectorType>(state.getType())));
    } else {
      Value u = e.spread(e.row(addTiles[0][adds], row), 0, shape);
      Value w = e.spread(e.row(addTiles[1][adds], row), 1, shape);
      state = e.add(state, e.mul(u, w));
      ++adds;
    }
    readHere();
  }
  computed.front() = state;
  return computed;
}
