//===- AnchoredBlocks.cpp - a chunk by blocks of rows ----------------------===//
//
// The block path of ChunkedState.h.
//
//===----------------------------------------------------------------------===//
#include "passes/FloatBounds.h"
#include "passes/NumericRange.h"
#include "passes/chunk/ChunkedState.h"

using namespace mlir;
using namespace ejk;

/// The rows of a tile of `mma`.
static constexpr int64_t kLeastBlockRows = 16;

/// The rows of one `wgmma`. Chunks with fewer rows are multiplied warp by warp, which may leave out the blocks
/// of others; four warps together multiply all rows in the time of one block.
static constexpr int64_t kRowsOfWarpgroups = 64;

//===----------------------------------------------------------------------===//
// Anchors and scales
//===----------------------------------------------------------------------===//

RunningGates::Blocks RunningGates::inBlocks(TileBuilder &e, int64_t blockRows) const {
  bool exclusive = direction.reverse == direction.decayFirst;
  Value gate = perStep(e), sums = e.cumsum(gate, /*reverse=*/false, exclusive);
  auto rowOf = [&](Value tile, int64_t at) { return e.row(tile, e.b.getIndexAttr(at)); };
  int64_t last = direction.chunk - 1;
  Blocks blocks;
  blocks.starts.push_back(e.zeros({e.shapeOf(sums)[1]}));
  for (int64_t first = blockRows; first < direction.chunk; first += blockRows)
    blocks.starts.push_back(rowOf(sums, exclusive ? first : first - 1));
  Value total = rowOf(sums, last);
  blocks.starts.push_back(exclusive ? e.add(total, rowOf(gate, last)) : total);
  Value within = sums;
  for (int64_t first = blockRows, b = 1; first < direction.chunk; first += blockRows, ++b)
    within = e.sub(within, e.rows(e.broadcast(blocks.starts[b], 1, e.shapeOf(sums)), first,
                                  first + blockRows));
  blocks.fromStart = direction.reverse ? e.neg(sums) : sums;
  blocks.around = direction.reverse ? e.neg(within) : within;
  return blocks;
}

std::optional<ChunkedState::BlockForm> ChunkedState::blockForm(const ChunkPlan &plan,
                                                               const StateChain &chain) {
  // Vectors that a correction adds, decayed by channel, would have a system for each channel. A scan
  // that gets these vectors as a sequence takes the path that the scan with the correction takes, so
  // that both round alike.
  auto isCorrecting = [](const StateChain::Add &add) { return OuterAddOp(add.op).getCorrects(); };
  bool isDerived = llvm::any_of(chain.adds, isCorrecting) || llvm::any_of(chain.reads, pairsCorrect);
  bool corrects = !chain.corrections.empty() || isDerived;
  bool solvesByChannel = !chain.corrections.empty()
                             ? chain.isGated(axisOf(chain.corrections.front().dim))
                             : isDerived && chain.isGated(Axis::value);
  if (plan.chunk <= kLeastBlockRows || plan.options.sumFromStart || plan.options.f32Matmuls ||
      solvesByChannel)
    return {};
  double strongest = 0;
  bool isGuarded = false;
  for (ArrayRef<DecayOp> decays : ArrayRef(chain.decays).drop_front()) {
    double least = 0;
    bool isBounded = true;
    for (DecayOp decay : decays) {
      Bounds bounds = FloatBounds().of(decay.getGate());
      isBounded &= bounds.most <= 0 && std::isfinite(bounds.least);
      least += bounds.least;
    }
    if (!isBounded && !plan.options.strongGate)
      return {};
    isGuarded |= !isBounded;
    strongest = std::max(strongest, isBounded ? -least : plan.options.strongGate);
  }
  // Weaker gates never leave the fast path, which takes fewer matmuls.
  if (strongest <= range::kGuardNats / (plan.chunk / 2))
    return {};
  for (int64_t rows = plan.chunk; rows >= kLeastBlockRows; rows /= 2) {
    if (strongest * rows <= range::kBlock.sum)
      return BlockForm{rows, range::kBlock, isGuarded};
    if (corrects && strongest * rows <= range::kBlockOfKeys.sum)
      return BlockForm{rows, range::kBlockOfKeys, isGuarded};
  }
  return {};
}

void ChunkedState::findBlocks(TileBuilder &e) {
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      blocks[dim] = bases[dim].gates->inBlocks(e, form->rows);
}

Value ChunkedState::areBlocksInRange(TileBuilder &e) {
  SmallVector<Value> exponents;
  auto add = [&](Value sum) {
    exponents.push_back(e.add(sum, e.constant(sum.getType(), form->range.offset)));
  };
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim)) {
      add(isReverse() ? e.neg(blocks[dim].around) : blocks[dim].around);
      // The sum of a block's last row is that of the block only in one of two scans.
      for (auto [start, end] :
           llvm::zip(blocks[dim].starts, ArrayRef(blocks[dim].starts).drop_front()))
        add(e.sub(end, start));
    }
  exponents.push_back(fewRowsExponent(e));
  double limit = std::max(form->range.offset, form->range.sum - form->range.offset);
  return e.rangeGuard(limit, exponents);
}

Value ChunkedState::exponentInBlock(TileBuilder &e, unsigned dim, unsigned place, bool ofLater) {
  Value exponent = bases[dim].gates->aroundAt(e, blocks[dim].around, place, ofLater == isReverse());
  Value offset = e.constant(exponent.getType(), form->range.offset);
  return ofLater ? e.add(exponent, offset) : e.sub(exponent, offset);
}

Value ChunkedState::rowsOfBlock(TileBuilder &e, Value tile, unsigned number) const {
  return form->rows == plan.chunk ? tile
                                  : e.rows(tile, number * form->rows, (number + 1) * form->rows);
}

Value ChunkedState::laterScale(TileBuilder &e, unsigned dim, unsigned place) {
  return e.exp(exponentInBlock(e, dim, place, /*ofLater=*/true));
}

Value ChunkedState::earlierScale(TileBuilder &e, unsigned dim, unsigned place) {
  return e.exp(exponentInBlock(e, dim, place, /*ofLater=*/false));
}

Value ChunkedState::toNextAnchor(TileBuilder &e, Value tile, unsigned dim, unsigned block) {
  // Half of the exponent twice: e^-124 is no normal number, and the tile may be as large as e^64.
  ArrayRef<Value> starts = blocks[dim].starts;
  Value sum = e.sub(starts[block + 1], starts[block]);
  Value half = e.exp(e.mul(sum, e.constant(sum.getType(), 0.5)));
  int64_t rows = (block + 1) * form->rows;
  Value scaled = times(e, times(e, tile, half, 1), half, 1);
  return e.add(e.rows(scaled, 0, rows), e.rows(tile, rows, plan.chunk));
}

Value ChunkedState::stateScale(TileBuilder &e, unsigned dim, unsigned place, bool ofRead) {
  bool ofLater = ofRead != isReverse();
  if (form->rows == plan.chunk) {
    // The only block starts where the chunk does. So its exponentials serve here, too.
    Value scale = ofLater ? laterScale(e, dim, place) : earlierScale(e, dim, place);
    if (ofLater)
      return e.mul(scale, e.exp(e.constant(scale.getType(), -form->range.offset)));
    Value total = blocks[dim].starts.back();
    Value toEnd = e.exp(e.add(total, e.constant(total.getType(), form->range.offset)));
    return e.mul(scale, e.broadcast(toEnd, 1, e.shapeOf(scale)));
  }
  Value exponent =
      bases[dim].gates->aroundAt(e, blocks[dim].fromStart, place, ofLater == isReverse());
  if (!ofLater)
    exponent = e.add(exponent, e.overRows(blocks[dim].starts.back(), exponent));
  return e.exp(exponent);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

void ChunkedState::multiplyByBlocks(TileBuilder &e) {
  struct Factors {
    std::pair<unsigned, unsigned> key;
    Value later, earlier;
    bool laterInTerms, earlierInTerms;
  };
  for (unsigned along = 0; along < 2; ++along) {
    if (!isGated(along))
      continue;
    SmallVector<Factors> all;
    for (auto [r, read] : llvm::enumerate(chain.reads))
      for (unsigned add = 0; add < chain.adds.size() && read.along == along; ++add) {
        Value reading = readTiles[r], added = addTiles[along][add];
        unsigned ofRead = read.decays[along + 1], ofAdd = chain.adds[add].decays[along + 1];
        bool readInTerms = pairsCorrect(read), addInTerms = cancels(add);
        if (isReverse())
          all.push_back({{r, add}, added, reading, addInTerms, readInTerms});
        else
          all.push_back({{r, add}, reading, added, readInTerms, addInTerms});
        Factors &x = all.back();
        x.later = e.mul(x.later, laterScale(e, along, isReverse() ? ofAdd : ofRead));
        x.earlier = e.mul(x.earlier, earlierScale(e, along, isReverse() ? ofRead : ofAdd));
      }
    Value zeros = e.zeros({plan.chunk, plan.chunk});
    for (unsigned b = 0; b + 1 < blocks[along].starts.size(); ++b)
      for (Factors &x : all) {
        if (b > 0)
          x.earlier = toNextAnchor(e, x.earlier, along, b - 1);
        SmallVector<Value, 2> later = termsOf(e, x.later, plan.operandType, x.laterInTerms);
        SmallVector<Value, 2> earlier = termsOf(e, x.earlier, plan.operandType, x.earlierInTerms);
        Value &sum = blockProducts[x.key];
        if (plan.chunk < kRowsOfWarpgroups) {
          sum = dotTerms(e, later, false, earlier, true, sum ? sum : zeros, /*over=*/{},
                         /*rows=*/{b * form->rows, (b + 1) * form->rows});
          continue;
        }
        Value rows = rowsOfBlock(e, dotTerms(e, later, false, earlier, true, zeros), b);
        sum = sum ? e.add(sum, rows) : rows;
      }
  }
}

Value ChunkedState::productsByBlocks(TileBuilder &e, unsigned r, unsigned add, bool addedInTerms,
                                     bool readingInTerms) {
  unsigned along = chain.reads[r].along;
  return isGated(along) ? blockProducts.at({r, add})
                        : dotProducts(e, readTiles[r], plainAdd(add, along), addedInTerms,
                                      readingInTerms);
}

ChunkedState::Part ChunkedState::entryPart(TileBuilder &e, unsigned r, Value state) {
  const StateChain::Read &read = chain.reads[r];
  unsigned other = 1 - read.along, place = read.decays[other + 1];
  Value entry = readEntry(e, r, state, /*inBasis=*/true);
  if (!isGated(other))
    return {entry, Value()};
  return {entry, stateScale(e, other, place, /*ofRead=*/true)};
}

SmallVector<ChunkedState::Part> ChunkedState::readParts(TileBuilder &e, unsigned r, Value state,
                                                        bool uncorrected) {
  const StateChain::Read &read = chain.reads[r];
  unsigned other = 1 - read.along;
  SmallVector<Part> parts = {entryPart(e, r, state)};
  // Of the read itself: its scale in its own block, or to each anchor.
  unsigned count = isGated(other) ? blocks[other].starts.size() - 1 : 0;
  if (count && !isReverse())
    parts.push_back({e.zeros(e.shapeOf(parts.front().tile)),
                     laterScale(e, other, read.decays[other + 1])});
  for (unsigned b = 0; isReverse() && b < count; ++b) {
    Value scale = b ? toNextAnchor(e, parts.back().scale, other, b - 1)
                    : earlierScale(e, other, read.decays[other + 1]);
    parts.push_back({e.zeros(e.shapeOf(parts.front().tile)), scale});
  }
  for (unsigned add = 0; add < chain.adds.size(); ++add) {
    if (uncorrected && chain.correctionOf(add))
      continue;
    bool ofAdd = cancels(add), ofRead = pairsCorrect(read);
    Value products = seenProducts(e, r, Value(), add, ofAdd, ofRead);
    SmallVector<Value, 2> terms = termsOf(e, products, plan.operandType, ofAdd || ofRead);
    Value added = plainAdd(add, other);
    unsigned place = chain.adds[add].decays[other + 1];
    auto addProduct = [&](Value &sum, Value vectors, ArrayRef<int64_t> over = {}) {
      sum = dotTerms(e, terms, isReverse(), termsOf(e, vectors, plan.operandType, ofAdd), false,
                     sum, over);
    };
    if (!isGated(other)) {
      addProduct(parts.front().tile, added);
    } else if (isReverse()) {
      Value scaled = e.mul(added, laterScale(e, other, place));
      for (unsigned b = 0; b < count; ++b)
        addProduct(parts[1 + b].tile, scaled, {b * form->rows, (b + 1) * form->rows});
    } else {
      // The scale first, as the other scan scales what it is paired with.
      Value scale = earlierScale(e, other, place);
      for (unsigned b = 0; b < count; ++b) {
        if (b > 0)
          scale = toNextAnchor(e, scale, other, b - 1);
        Value sum = e.zeros(e.shapeOf(parts.front().tile));
        addProduct(sum, e.mul(added, scale));
        parts.back().tile = e.add(parts.back().tile, rowsOfBlock(e, sum, b));
      }
    }
  }
  return parts;
}

Value ChunkedState::sumOfParts(TileBuilder &e, ArrayRef<Part> parts) {
  Value sum;
  for (const Part &part : parts) {
    Value term = part.scale ? e.mul(part.tile, part.scale) : part.tile;
    sum = sum ? e.add(sum, term) : term;
  }
  return sum;
}

Value ChunkedState::pairedParts(TileBuilder &e, unsigned r, Value partner, ArrayRef<Part> parts) {
  bool rounds = !pairsCorrect(chain.reads[r]);
  Value sum;
  for (const Part &part : parts) {
    // Rounded as the other scan rounds what it adds.
    Value scaled = part.scale ? e.mul(partner, part.scale) : partner;
    Value term = e.mul(rounds ? asRead(e, scaled) : scaled, part.tile);
    sum = sum ? e.add(sum, term) : term;
  }
  return sum;
}

Value ChunkedState::updateByBlocks(TileBuilder &e, Value state) {
  if (head)
    state = e.mul(state, e.broadcast(head->total(e), cast<VectorType>(state.getType())));
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim))
      state = times(e, state, e.exp(blocks[dim].starts.back()), dim);
  for (unsigned add = 0; add < chain.adds.size(); ++add)
    state = dotTerms(e, addend(e, add, 0), true, addend(e, add, 1), false, state);
  return state;
}

ChunkedState::Computed ChunkedState::onBlockPath(TileBuilder &e, Value state) {
  byBlocks = true;
  if (!form->isGuarded)
    findBlocks(e);
  multiplyByBlocks(e);
  solveCorrections(e, state);
  Computed computed = {Value()}, pairs;
  for (auto [r, read] : llvm::enumerate(chain.reads)) {
    SmallVector<Part> parts;
    if (Value solution = readOfSolution(r))
      parts = {{solution, Value()}};
    else
      parts = readParts(e, r, state);
    computed.push_back(sumOfParts(e, parts));
    for (Value partner : pairingTiles[r])
      pairs.push_back(pairedParts(e, r, partner, parts));
  }
  for (auto [c, correction] : llvm::enumerate(chain.corrections))
    if (isGiven(correction))
      computed.push_back(corrected[c]);
  llvm::append_range(computed, pairs);
  for (unsigned number = 0; number < chain.checkpoints.size(); ++number)
    computed.push_back(atCheckpoint(e, number, state, /*inBasis=*/true));
  computed.front() = updateByBlocks(e, state);
  save(e, computed.front(), /*inBasis=*/true);
  byBlocks = false;
  return computed;
}
