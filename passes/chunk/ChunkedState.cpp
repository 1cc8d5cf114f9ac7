//===- ChunkedState.cpp - a chunk of one state, as matmuls -----------------===//
#include "passes/chunk/ChunkedState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/NumericRange.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace ejk;

/// The bound on exponents, in nats, of each of `axes` axes whose bases are in the state.
static double rangeLimit(unsigned axes) {
  return axes == 2 ? range::kGuardNatsOfTwoAxes : range::kGuardNats;
}

/// Whether `tile` is plain f16 rows.
static bool isHalf(Value tile) {
  auto widened = tile.getDefiningOp<arith::ExtFOp>();
  return widened && getElementTypeOrSelf(widened.getIn()).isF16();
}

ChunkedState::ChunkedState(const ChunkPlan &plan, const StateChain &chain, ChunkTiles &tiles,
                           TileBuilder &body, Value rows, Value hasFewRows)
    : plan(plan), chain(chain), tiles(tiles), body(body), rows(rows),
      hasFewRows(hasFewRows) {}

void ChunkedState::collectTiles() {
  for (auto [axis, decays] : llvm::enumerate(chain.decays))
    for (DecayOp decay : decays)
      gateTiles[axis].push_back(tiles.masked(decay.getGate(), isSliced(int(axis) - 1)));
  for (const StateChain::Add &add : chain.adds)
    for (int dim : {0, 1})
      addTiles[dim].push_back(tiles.masked(add.vectors[dim], isSliced(dim)));
  for (const StateChain::Correction &correction : chain.corrections) {
    shiftTiles.push_back(correction.shift ? tiles.masked(correction.shift, isSliced(correction.dim))
                                          : Value());
    SmallVector<Value> &factors = factorTiles.emplace_back();
    for (const StateChain::Correction::Term &term : correction.terms)
      factors.push_back(tiles.masked(term.factor, false));
  }
  for (const StateChain::Read &read : chain.reads) {
    readTiles.push_back(tiles.masked(read.vector, isSliced(read.along)));
    SmallVector<Value> &partners = pairingTiles.emplace_back();
    for (const StateChain::Read::Pairing &pairing : read.pairings)
      partners.push_back(tiles.masked(pairing.vector, isSliced(1 - read.along)));
  }
}

Value ChunkedState::compute(Value state, const ChunkedSaves &saves) {
  collectTiles();
  saved = &saves;
  if (plan.options.saveEntries)
    saveAt(body, [&](TileBuilder &e) {
      for (const StateChain::Save &save : chain.saves)
        saves.store(e, save, e.scale(state, chain.scale));
    });
  // Loaded before any branch, so that copies can be issued ahead. A saved state that several chunks
  // share is loaded by the first of them.
  if (!saves.enters || plan.options.saveEntries)
    for (CheckpointOp checkpoint : chain.checkpoints)
      savedTiles.push_back(saves.load(body, checkpoint));
  bool leavesLast = chain.isGated(Axis::head) && llvm::any_of(addTiles[0], isHalf);
  if (!chain.saves.empty() || leavesLast)
    lastRow = isReverse() ? body.index(0) : tiles.lastRow();
  if (chain.isGated(Axis::head))
    head.emplace(body, direction(Axis::head), gateTiles[0], plan.operandType,
                 plan.options.inExponents);
  findBases();
  form = blockForm(plan, chain);
  if (form && form->isGuarded)
    findBlocks(body);
  // Within the bounds of blocks, only chunks of few rows need another path, and only for gradients
  // of gates.
  bool isGuarded = (isGated(0) || isGated(1)) && (!form || form->isGuarded || isPaired());
  Computed computed = isGuarded ? withGuard(state) : byMatmuls(body, state);
  ArrayRef<Value> next = ArrayRef(computed).drop_front();
  for (const StateChain::Read &read : chain.reads)
    if (Value tile = next.consume_front()) {
      if (scaleInDecays(read) == 1)
        tile = body.scale(tile, {read.scale, chain.scale});
      tile = tiles.scaled(tile, read.multipliers);
      tiles.setRead(read.whole, read.isNegated ? body.neg(tile) : tile);
    }
  for (const StateChain::Correction &correction : chain.corrections)
    if (isGiven(correction))
      tiles.setRead(correction.vector.getDefiningOp(), next.consume_front());
  for (const StateChain::Read &read : chain.reads)
    for (const StateChain::Read::Pairing &pairing : read.pairings)
      tiles.setPairing(pairing.op, body.scale(next.consume_front(), scalesOf(read, pairing)));
  checkpointResults.assign(next.begin(), next.end());
  return computed.front();
}

//===----------------------------------------------------------------------===//
// The middle row's basis
//===----------------------------------------------------------------------===//

/// Gates of one axis, raised to the floor whose exponential is zero. The exact path uses them for
/// the sums of checkpoints, which are computed in parts and as matmuls with zeros: a gate of -inf
/// would give NaN there. 16-bit gates stay 16-bit, so that a cumsum needs only one term.
RunningGates ChunkedState::raisedGates(TileBuilder &e, unsigned dim) {
  SmallVector<Value> gates;
  for (Value gate : gateTiles[dim + 1]) {
    auto widened = gate.getDefiningOp<arith::ExtFOp>();
    Value x = widened ? widened.getIn() : gate;
    gates.push_back(e.widen(e.larger(x, e.constant(x.getType(), gateFloor(plan.operandType)))));
  }
  return RunningGates(direction(axisOf(dim)), gates, /*finite=*/true);
}

void ChunkedState::findBases() {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim)) {
      bases[dim].gates.emplace(direction(axisOf(dim)), gateTiles[dim + 1]);
      if (plan.options.sumFromStart) {
        bases[dim].around = bases[dim].gates->upTo(body, bases[dim].gates->base());
        continue;
      }
      bases[dim].around = bases[dim].gates->around(body, plan.chunk / 2);
      bases[dim].middle = bases[dim].gates->startOf(body, bases[dim].around);
    }
}

Value ChunkedState::readExponent(TileBuilder &e, unsigned dim, const StateChain::Read &read) {
  return bases[dim].gates->aroundAt(e, bases[dim].around, read.decays[dim + 1], false);
}

Value ChunkedState::addExponent(TileBuilder &e, unsigned dim, const StateChain::Add &add) {
  return bases[dim].gates->aroundAt(e, bases[dim].around, add.decays[dim + 1], true);
}

bool ChunkedState::isPaired() const {
  return !chain.checkpoints.empty() ||
         llvm::any_of(chain.reads, [](auto &read) { return !read.pairings.empty(); });
}

bool ChunkedState::isInState(unsigned dim) const {
  auto isAlongOther = [&](const StateChain::Read &read) { return read.along == 1 - dim; };
  bool comesLate =
      isGated(0) && isGated(1) && !isPaired() && llvm::all_of(chain.reads, isAlongOther);
  return isGated(dim) && !comesLate;
}

Value ChunkedState::isInRange(TileBuilder &e) {
  SmallVector<Value> exponents;
  bool isForGradients = isOfGradients();
  for (unsigned dim = 0; dim < 2; ++dim) {
    if (!isGated(dim))
      continue;
    const Basis &basis = bases[dim];
    exponents.push_back(basis.around);
    llvm::SmallSet<unsigned, 2> seen = {basis.gates->base()};
    if (isForGradients && basis.middle) {
      // A scan that saves states and one that reads them must take the same path: terms that
      // cancel between the two are rounded in both or in neither, and where shorter chunks take
      // the place of steps, a path reads the states that the same path saves. So their guards look
      // at numbers of the same bits: one's cumsums are the other's, a row later, and `endsOf` gives
      // both the ends. The cumsum's own row at an end, which only one of them has, decides
      // nothing, since ends have a limit that is lower by more than its rounding.
      for (Value end : basis.gates->endsOf(e, basis.around))
        exponents.push_back(e.scale(end, range::kGuardOfEnds));
      // What lies before and after all decays of a step are rows of these, too.
      for (size_t place : {size_t(0), chain.decays[dim + 1].size()})
        seen.insert(place);
    } else if (isPaired()) {
      // Without a bound for M, e^M S loses values below 2^-126, of which R − M ≤ 64 restores e^-23
      // at most. But a checkpoint multiplies by e^-M, which would restore all of them.
      exponents.push_back(basis.gates->restOf(e, basis.around));
    }
    auto addPlace = [&](unsigned place) {
      if (seen.insert(place).second)
        exponents.push_back(basis.gates->aroundAt(e, basis.around, place, isReverse()));
    };
    for (const StateChain::Read &read : chain.reads)
      addPlace(read.decays[dim + 1]);
    for (const StateChain::Add &add : chain.adds)
      addPlace(add.decays[dim + 1]);
  }
  // With few rows, the rounding errors of operands may be all that is left of sums that nearly
  // cancel.
  exponents.push_back(fewRowsExponent(e));
  // A cumsum of -inf makes differences NaN, and NaN is out of range.
  unsigned axes = isForGradients ? isGated(0) + isGated(1) : isInState(0) + isInState(1);
  return e.rangeGuard(rangeLimit(axes), exponents);
}

//===----------------------------------------------------------------------===//
// Fast path
//===----------------------------------------------------------------------===//

Value ChunkedState::times(TileBuilder &e, Value tile, Value vector, unsigned dim) {
  return e.mul(tile, e.broadcast(vector, dim, e.shapeOf(tile)));
}

Value ChunkedState::inBasis(TileBuilder &e, Value tile, unsigned add, unsigned dim) {
  return isGated(dim) ? e.mul(tile, e.exp(addExponent(e, dim, chain.adds[add]))) : tile;
}

Value ChunkedState::addTile(TileBuilder &e, unsigned add, unsigned dim) {
  if (Value solution = correctedOf(add, dim))
    return solution;
  return inBasis(e, addTiles[dim][add], add, dim);
}

Value ChunkedState::readVector(TileBuilder &e, unsigned r, bool inBasis) {
  const StateChain::Read &read = chain.reads[r];
  Value x = readTiles[r];
  if (isGated(read.along) && byBlocks)
    return e.mul(x, stateScale(e, read.along, read.decays[read.along + 1], /*ofRead=*/true));
  if (isGated(read.along))
    x = e.mul(x,
              e.exp(inBasis ? readExponent(e, read.along, read)
                            : raisedGates(e, read.along).upTo(e, read.decays[read.along + 1])));
  return x;
}

Type ChunkedState::typeOfRows(Value x, Value y) const {
  bool inHalf = isHalf(x) && isHalf(y) && !plan.operandType.isF32();
  return inHalf ? Float16Type::get(x.getContext()) : plan.operandType;
}

Value ChunkedState::asRead(TileBuilder &e, Value rows) const {
  return isHalf(rows) ? rows : e.widen(e.round(rows, plan.operandType));
}

Value ChunkedState::readEntry(TileBuilder &e, unsigned r, Value state, bool inBasis) {
  const StateChain::Read &read = chain.reads[r];
  int64_t channels = e.shapeOf(state)[1 - read.along];
  Value x = readVector(e, r, inBasis), sum = e.zeros({plan.chunk, channels});
  auto addProduct = [&](Value vector, Value matrix) {
    sum = e.dot(vector, false, matrix, read.along == 1, sum);
  };
  Value roundX = e.round(x, plan.operandType), roundState = e.round(state, plan.operandType);
  addProduct(roundX, roundState);
  if (SmallVector<Value, 2> terms = termsOf(e, x, plan.operandType, inBasis && pairsCorrect(read));
      terms.size() > 1)
    addProduct(terms.back(), roundState);
  if (!inBasis && !plan.operandType.isF32()) {
    // Other terms are f32 sums, so add the remainder that rounding dropped, too.
    auto rest = [&](Value tile, Value rounded) {
      return e.round(e.sub(e.widen(tile), e.widen(rounded)), plan.operandType);
    };
    auto hasRest = [](Value tile, Value rounded) {
      auto widened = tile.getDefiningOp<arith::ExtFOp>();
      return rounded != tile && (!widened || widened.getIn() != rounded);
    };
    if (hasRest(x, roundX))
      addProduct(rest(x, roundX), roundState);
    if (hasRest(state, roundState))
      addProduct(roundX, rest(state, roundState));
  }
  if (head)
    sum = e.mul(sum, e.broadcast(head->fromStart(e, read.decays[0], scaleInDecays(read)), 0,
                                 e.shapeOf(sum)));
  return sum;
}

Value ChunkedState::dotTerms(TileBuilder &e, ArrayRef<Value> lhs, bool lhsTransposed,
                             ArrayRef<Value> rhs, bool rhsTransposed, Value acc,
                             ArrayRef<int64_t> over, ArrayRef<int64_t> rows) {
  auto add = [&](Value left, Value right) {
    acc = e.dot(left, lhsTransposed, right, rhsTransposed, acc, over, rows);
  };
  add(lhs.front(), rhs.front());
  if (lhs.size() > 1)
    add(lhs.back(), rhs.front());
  if (rhs.size() > 1)
    add(lhs.front(), rhs.back());
  return acc;
}

Value ChunkedState::readOnFastPath(TileBuilder &e, unsigned r, Value basisState,
                                   bool uncorrected) {
  if (byBlocks)
    return sumOfParts(e, readParts(e, r, basisState, uncorrected));
  const StateChain::Read &read = chain.reads[r];
  unsigned along = read.along, other = 1 - along;
  Value sum = readEntry(e, r, basisState, /*inBasis=*/true);
  if (isGated(other) && !isInState(other) && bases[other].middle)
    sum = times(e, sum, e.exp(bases[other].middle), 1);
  Value x = readVector(e, r, /*inBasis=*/true);
  for (unsigned add = 0; add < chain.adds.size(); ++add) {
    if (uncorrected && chain.correctionOf(add))
      continue;
    // What a gate's gradient sums is rounded as the other scan rounds it: in it, what this one adds
    // is read with, and what this one reads with is added.
    bool ofAdd = cancels(add), ofRead = pairsCorrect(read);
    Value products = seenProducts(e, r, x, add, ofAdd, ofRead), added;
    // The products need no state, so that they are scaled apart from what waits for it.
    if (auto [solution, factor] = scaledOf(add, other); solution) {
      products = times(e, products, factor, isReverse() ? 0 : 1);
      added = solution;
    } else {
      added = addTile(e, add, other);
    }
    sum = dotTerms(e, termsOf(e, products, plan.operandType, ofAdd || ofRead), isReverse(),
                   termsOf(e, added, plan.operandType, ofAdd), false, sum);
  }
  return sum;
}

Value ChunkedState::seenProducts(TileBuilder &e, unsigned r, Value x, unsigned add,
                                 bool addedInTerms, bool readingInTerms) {
  const StateChain::Read &read = chain.reads[r];
  bool inclusive = add < read.adds;
  Value p = byBlocks
                ? productsByBlocks(e, r, add, addedInTerms, readingInTerms)
                : dotProducts(e, x, addTile(e, add, read.along), addedInTerms, readingInTerms);
  if (head)
    p = e.mul(p, head->between(e, read.decays[0], chain.adds[add].decays[0], inclusive,
                               scaleInDecays(read)));
  // In the basis, masked elements may have any value, also infinity.
  if (!head || isGated(read.along))
    p = e.mask(p, /*upper=*/false, !inclusive, 0.0f);
  return p;
}

Value ChunkedState::dotProducts(TileBuilder &e, Value reading, Value added, bool addedInTerms,
                                bool readingInTerms) {
  Type type = typeOfRows(reading, added);
  SmallVector<Value, 2> later = termsOf(e, reading, type, readingInTerms);
  SmallVector<Value, 2> earlier = termsOf(e, added, type, addedInTerms);
  if (isReverse())
    std::swap(later, earlier);
  return dotTerms(e, later, false, earlier, true, e.zeros({plan.chunk, plan.chunk}));
}

Value ChunkedState::pairedSums(TileBuilder &e, unsigned r, Value partner, Value state) {
  const StateChain::Read &read = chain.reads[r];
  unsigned along = read.along, other = 1 - along;
  // Rounded as in the sum from which the accumulator restarts.
  Value sums = e.sum(e.mul(asRead(e, partner), readEntry(e, r, state, /*inBasis=*/true)), 1);
  Value x = readVector(e, r, /*inBasis=*/true);
  for (unsigned add = 0; add < chain.adds.size(); ++add) {
    bool inclusive = add < read.adds;
    // With the same decays as other matmuls, so that they are shared; the mask below removes the
    // additional one.
    Value p = dotProducts(e, x, addTile(e, add, along));
    if (head)
      p = e.mul(p, head->between(e, read.decays[0], chain.adds[add].decays[0],
                                 /*inclusive=*/true, scaleInDecays(read)));
    Value terms = e.mul(p, dotProducts(e, partner, addTile(e, add, other)));
    terms = e.mask(terms, /*upper=*/false, !inclusive, 0.0f);
    sums = e.add(sums, e.sum(terms, isReverse() ? 0 : 1));
  }
  return sums;
}

unsigned ChunkedState::decayedDim() const {
  auto isPaired = [](const StateChain::Read &read) { return !read.pairings.empty(); };
  auto plain = llvm::find_if_not(chain.reads, isPaired);
  if (plain != chain.reads.end())
    return 1 - plain->along;
  return chain.reads.empty() ? 1 : 1 - chain.reads.front().along;
}

std::optional<LastPlace> ChunkedState::lastPlaceOfHalf(TileBuilder &e) {
  auto isOfHalf = [&](unsigned add) {
    return typeOfRows(addTile(e, add, 0), addTile(e, add, 1)).isF16();
  };
  if (!head || llvm::none_of(llvm::seq(chain.adds.size()), isOfHalf))
    return std::nullopt;
  unsigned last = chain.adds.back().decays[0];
  if (last >= chain.decays[0].size())
    return std::nullopt;
  return LastPlace{last, isReverse() ? OpFoldResult(e.b.getIndexAttr(0)) : lastRow};
}

SmallVector<Value, 2> ChunkedState::addend(TileBuilder &e, unsigned add, unsigned dim,
                                           std::optional<LastPlace> lessLast) {
  Value tile = byBlocks ? plainAdd(add, dim) : addTile(e, add, dim);
  Type type = byBlocks ? plan.operandType : typeOfRows(tile, addTile(e, add, 1 - dim));
  if (isGated(dim) && byBlocks)
    tile = e.mul(tile, stateScale(e, dim, chain.adds[add].decays[dim + 1], /*ofRead=*/false));
  else if (isGated(dim) && !isInState(dim))
    tile = times(e, tile, e.exp(bases[dim].gates->restOf(e, bases[dim].around)), 1);
  if (head && dim == decayedDim()) {
    Value toEnd = head->toEnd(e, chain.adds[add].decays[0], lessLast);
    // One number for each step, where the solution is no more than scaled.
    if (auto [solution, factor] = scaledOf(add, dim); solution && tile == correctedOf(add, dim)) {
      tile = solution;
      toEnd = e.mul(toEnd, factor);
    }
    tile = e.mul(tile, e.broadcast(toEnd, 0, e.shapeOf(tile)));
  }
  return termsOf(e, tile, type, cancels(add));
}

Value ChunkedState::updateOnFastPath(TileBuilder &e, Value basisState) {
  Value state = basisState;
  auto timesNumber = [&](Value number) {
    return e.mul(state, e.broadcast(number, cast<VectorType>(state.getType())));
  };
  std::optional<LastPlace> lessLast = lastPlaceOfHalf(e);
  if (head)
    state = timesNumber(head->total(e, lessLast));
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim) && !isInState(dim)) {
      const Basis &basis = bases[dim];
      Value rest = basis.gates->restOf(e, basis.around);
      state = times(e, state, e.exp(basis.middle ? e.add(basis.middle, rest) : rest), dim);
    }
  for (unsigned add = 0; add < chain.adds.size(); ++add)
    state = dotTerms(e, addend(e, add, 0, lessLast), true, addend(e, add, 1, lessLast), false,
                     state);
  return lessLast ? timesNumber(head->afterLast(e, *lessLast)) : state;
}

/// Changes from the basis to the state at the end of the chunk.
Value ChunkedState::toEnd(TileBuilder &e, Value state) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isInState(dim))
      state = times(e, state, e.exp(bases[dim].gates->restOf(e, bases[dim].around)), dim);
  return state;
}

Value ChunkedState::beforeAdds(TileBuilder &e, const StateChain::Save &save, Value state,
                               bool inBasis) {
  std::optional<LastPlace> lessLast =
      inBasis && !byBlocks ? lastPlaceOfHalf(e) : std::nullopt;
  for (unsigned add = save.adds; add < chain.adds.size(); ++add) {
    auto rowOf = [&](unsigned dim) {
      SmallVector<Value, 2> terms = {addTiles[dim][add]};
      if (inBasis)
        terms = addend(e, add, dim, lessLast);
      Value row = e.row(e.widen(terms.front()), lastRow);
      if (terms.size() > 1)
        row = e.add(row, e.row(e.widen(terms.back()), lastRow));
      return e.broadcast(row, dim, e.shapeOf(state));
    };
    Value outer = e.mul(rowOf(0), rowOf(1));
    if (lessLast)
      outer = e.mul(outer, e.broadcast(head->afterLast(e, *lessLast),
                                       cast<VectorType>(state.getType())));
    state = e.sub(state, outer);
  }
  return state;
}

/// All multipliers of a cancelling pair's result.
SmallVector<double> ChunkedState::scalesOf(const StateChain::Read &read,
                                           const StateChain::Read::Pairing &pairing) {
  if (scaleInDecays(read) != 1)
    return {};
  return {pairing.scale, read.scale, chain.scale};
}

double ChunkedState::scaleInDecays(const StateChain::Read &read) const {
  // The exact path has no scales in its decays.
  if (!head || !head->takesScale() || isGated(0) || isGated(1))
    return 1;
  double scale = read.scale * chain.scale;
  if (!read.pairings.empty()) {
    if (!read.isOnlySummed || read.pairings.size() > 1)
      return 1;
    scale *= read.pairings.front().scale;
  }
  return scale > 0 ? scale : 1;
}

ChunkedState::Computed ChunkedState::onFastPath(TileBuilder &e, Value state) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isInState(dim) && bases[dim].middle)
      state = times(e, state, e.exp(bases[dim].middle), dim);
  solveCorrections(e, state);
  auto fromBasis = [&](Value tile, const StateChain::Read &read) {
    unsigned other = 1 - read.along;
    return isGated(other) ? e.mul(tile, e.exp(readExponent(e, other, read))) : tile;
  };
  // Reads first, because the update may overwrite the state's registers.
  Computed computed = {Value()};
  Computed pairs;
  for (auto [r, read] : llvm::enumerate(chain.reads)) {
    if (read.sumsPairs)
      for (Value partner : pairingTiles[r])
        pairs.push_back(pairedSums(e, r, partner, state));
    if (read.isOnlySummed) {
      computed.push_back(Value());
      continue;
    }
    Value inBasis = readOfSolution(r);
    if (!inBasis)
      inBasis = readOnFastPath(e, r, state);
    computed.push_back(fromBasis(inBasis, read));
    if (!read.sumsPairs)
      for (Value partner : pairingTiles[r])
        pairs.push_back(paired(e, r, partner, inBasis, /*inBasis=*/true));
  }
  for (auto [c, correction] : llvm::enumerate(chain.corrections))
    if (isGiven(correction))
      computed.push_back(fromBasis(corrected[c], chain.reads[correction.terms.front().read]));
  llvm::append_range(computed, pairs);
  for (unsigned number = 0; number < chain.checkpoints.size(); ++number)
    computed.push_back(atCheckpoint(e, number, state, /*inBasis=*/true));
  Value end = updateOnFastPath(e, state);
  save(e, end, /*inBasis=*/true);
  computed.front() = toEnd(e, end);
  return computed;
}
