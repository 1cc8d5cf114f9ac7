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
  for (const StateChain::Read &read : chain.reads)
    readTiles.push_back(tiles.masked(read.vector, isSliced(read.along)));
}

Value ChunkedState::compute(Value state) {
  collectTiles();
  if (chain.isGated(Axis::head))
    head = HeadDecays(body, walk, gateTiles[0]);
  Computed computed = isGated(0) || isGated(1) ? byChoice(state) : byProducts(body, state);
  for (auto [read, tile] : llvm::zip(chain.reads, ArrayRef(computed).drop_front()))
    tiles.setRead(read.op, tiles.scaled(tile, read.factors));
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
  Value largest;
  auto include = [&](Value exponent) {
    Value size = e.max(e.abs(exponent));
    largest = largest ? e.larger(largest, size) : size;
  };
  for (unsigned dim = 0; dim < 2; ++dim) {
    if (!isGated(dim))
      continue;
    // Differences of sums that are large lose what is small in them.
    include(bases[dim].middle);
    include(addExponent(e, dim));
    unsigned all = chain.decays[dim + 1].size();
    llvm::SmallSet<unsigned, 2> seen = {walk.decayFirst ? all : 0u};
    for (const StateChain::Read &read : chain.reads)
      if (seen.insert(read.decays[dim + 1]).second)
        include(readExponent(e, dim, read));
  }
  // A sum that is -inf makes differences NaN, and NaN is not in range.
  Value limit = e.constant(e.b.getF32Type(), rangeLimit(isGated(0) + isGated(1)));
  return arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::OLE, largest, limit);
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
  return isGated(other) ? e.mul(sum, e.exp(readExponent(e, other, read))) : sum;
}

Value ChunkedState::updateByProducts(TileBuilder &e, Value basisState) {
  auto round = [&](Value tile) { return e.round(tile, plan.productType); };
  Value state = basisState;
  if (head)
    state = e.mul(state, e.broadcast(head->total(e), cast<VectorType>(state.getType())));
  for (unsigned add = 0; add < chain.adds.size(); ++add) {
    Value value = addTile(e, add, 1);
    if (head)
      value = e.mul(value, e.spread(head->toEnd(e), 0, e.shapeOf(value)));
    state = e.dot(round(addTile(e, add, 0)), true, round(value), false, state);
  }
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      state = times(e, state, e.exp(e.sub(bases[dim].gates->total(e), bases[dim].middle)), dim);
  return state;
}

ChunkedState::Computed ChunkedState::byProducts(TileBuilder &e, Value state) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      state = times(e, state, e.exp(bases[dim].middle), dim);
  // Reads first: the update may then take the state's place.
  Computed computed = {Value()};
  for (unsigned r = 0; r < chain.reads.size(); ++r)
    computed.push_back(readByProducts(e, r, state));
  computed.front() = updateByProducts(e, state);
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
  return loop.getResults();
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
