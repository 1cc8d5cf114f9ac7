//===- ChunkedCorrections.cpp - what a chunk's steps add to correct it -----===//
#include "passes/chunk/ChunkedState.h"

using namespace mlir;
using namespace ejk;

Value ChunkedState::vectorFor(TileBuilder &e, unsigned r) {
  return byBlocks ? Value() : readVector(e, r, /*inBasis=*/true);
}

void ChunkedState::solveCorrections(TileBuilder &e, Value basisState) {
  if (chain.corrections.empty())
    return;
  // The later step has a row; in a backward pass the one that reads is the earlier.
  unsigned ofReading = isReverse() ? 1 : 0, ofAdding = 1 - ofReading;
  SmallVector<Value> rhs;
  Systems matrices;
  auto shiftOf = [&](const StateChain::Correction &correction, Value shift) {
    return inBasis(e, shift, correction.add, correction.dim);
  };
  for (auto [correction, factors, shift] : llvm::zip(chain.corrections, factorTiles, shiftTiles)) {
    // With u = c (y + w'), y + w' is solved for, and what steps see of u is seen of that, times c.
    Value sum = shift                   ? shiftOf(correction, shift)
                : correction.isMultiple ? Value()
                                        : addTile(e, correction.add, correction.dim);
    SmallVector<Value> &row = matrices.emplace_back(chain.corrections.size());
    for (auto [term, factor] : llvm::zip(correction.terms, factors)) {
      Value seen = readOnFastPath(e, term.read, basisState, /*uncorrected=*/true);
      Value scaled = correction.isScaled() ? seen : times(e, seen, factor, 0);
      sum = sum ? e.add(sum, scaled) : scaled;
      for (auto [other, otherFactors, matrix] : llvm::zip(chain.corrections, factorTiles, row)) {
        // As the reads that are stored take them: later scans compute u from those, and no read corrects
        // there what differs.
        Value products =
            seenProducts(e, term.read, vectorFor(e, term.read), other.add, cancels(other.add));
        if (other.isScaled())
          products = times(e, products, otherFactors.front(), ofAdding);
        if (!correction.isScaled())
          products = times(e, products, factor, ofReading);
        matrix = matrix ? e.add(matrix, products) : products;
      }
    }
    rhs.push_back(sum);
  }
  SmallVector<Value> solutions = eliminate(e, std::move(matrices), std::move(rhs));
  for (auto [correction, factors, shift, solution] :
       llvm::zip(chain.corrections, factorTiles, shiftTiles, solutions)) {
    bool isScaled = correction.isScaled();
    scaledSolutions.push_back(isScaled ? Scaled{solution, factors.front()} : Scaled());
    corrected.push_back(isScaled ? times(e, solution, factors.front(), 0) : solution);
    bool isWhole = isScaled && (!shift || chain.reads[correction.terms.front().read].shiftedBy);
    solvedReads.push_back(isWhole ? solution
                          : shift ? e.sub(solution, shiftOf(correction, shift))
                                  : Value());
  }
}

SmallVector<Value> ChunkedState::eliminate(TileBuilder &e, Systems matrices,
                                           SmallVector<Value> rhs) const {
  unsigned count = rhs.size();
  // acc + x y, or acc + xᵀ y, with both in two terms: see `tile.solve`.
  auto addProduct = [&](Value acc, Value x, bool transposed, Value y) {
    return dotTerms(e, termsOf(e, x, plan.operandType, true), transposed,
                    termsOf(e, y, plan.operandType, true), false, acc);
  };
  // Forwards: (I − M^aa) x^a = rhs^a + Σ_b M^ab x^b. A backward pass has the transposed matrices, and
  // solves with M^aa itself for what it multiplies them by, because that is a matrix's columns.
  for (unsigned a = 0; a < count; ++a) {
    Value own = matrices[a][a];
    if (!isReverse()) {
      rhs[a] = e.solve(own, rhs[a], /*transposed=*/false);
      for (unsigned b = a + 1; b < count; ++b)
        matrices[a][b] = e.solve(own, matrices[a][b], /*transposed=*/false);
    }
    for (unsigned c = a + 1; c < count; ++c) {
      if (isReverse())
        matrices[c][a] = e.solve(own, matrices[c][a], /*transposed=*/false);
      rhs[c] = addProduct(rhs[c], matrices[c][a], isReverse(), rhs[a]);
      for (unsigned b = a + 1; b < count; ++b)
        matrices[c][b] = isReverse()
                             ? addProduct(matrices[c][b], matrices[a][b], false, matrices[c][a])
                             : addProduct(matrices[c][b], matrices[c][a], false, matrices[a][b]);
    }
  }
  for (unsigned a = count; a-- > 0;) {
    for (unsigned b = a + 1; b < count; ++b)
      rhs[a] = addProduct(rhs[a], matrices[a][b], isReverse(), rhs[b]);
    if (isReverse())
      rhs[a] = e.solve(matrices[a][a], rhs[a], /*transposed=*/true);
  }
  return rhs;
}

Value ChunkedState::readOfSolution(unsigned r) const {
  for (auto [correction, solution, read] : llvm::zip(chain.corrections, corrected, solvedReads)) {
    if (chain.reads[r].op == correction.vector.getDefiningOp())
      return solution;
    if (read && r == correction.terms.front().read)
      return read;
  }
  return {};
}

SmallVector<Value, 2> ChunkedState::termsOf(TileBuilder &e, Value tile, Type type,
                                            bool inTerms) const {
  Value first = e.round(tile, type);
  auto widened = tile.getDefiningOp<arith::ExtFOp>();
  bool isExact = first == tile || (widened && widened.getIn() == first);
  if (!inTerms || isExact)
    return {first};
  return {first, e.round(e.sub(e.widen(tile), e.widen(first)), type)};
}

Value ChunkedState::correctedRow(TileBuilder &e, unsigned c, Value row, ArrayRef<Value> reads) {
  const StateChain::Correction &correction = chain.corrections[c];
  Value sum = e.row(addTiles[correction.dim][correction.add], row);
  for (auto [term, factor] : llvm::zip(correction.terms, factorTiles[c])) {
    Value number = e.row(factor, row);
    Value wide = e.broadcast(number, cast<VectorType>(sum.getType()));
    sum = e.add(sum, e.mul(wide, reads[term.read]));
  }
  return sum;
}
