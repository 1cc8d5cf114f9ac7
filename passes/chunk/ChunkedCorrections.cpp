//===- ChunkedCorrections.cpp - what a chunk's steps add to correct it -----===//
#include "passes/chunk/ChunkedState.h"

using namespace mlir;
using namespace ejk;

Value ChunkedState::vectorFor(TileBuilder &e, unsigned r) {
  return byBlocks ? Value() : readVector(e, r, /*inBasis=*/true);
}

Value ChunkedState::solveCorrection(TileBuilder &e, Value basisState) {
  const StateChain::Correction &correction = *chain.correction;
  if (correction.isMultiple) {
    // With u = c y, the read y solves a system, too, in which c is the number of the step that adds.
    const StateChain::Correction::Term &term = correction.terms.front();
    Value seen = readOnFastPath(e, term.read, basisState, /*without=*/correction.add);
    Value products =
        seenProducts(e, term.read, vectorFor(e, term.read), correction.add);
    products = times(e, products, factorTiles.front(), isReverse() ? 0 : 1);
    solvedRead = e.solve(products, seen, /*transposed=*/isReverse());
    return times(e, solvedRead, factorTiles.front(), 0);
  }
  // What does not depend on the reads is still in the place of what is added.
  Value rhs = addTile(e, correction.add, correction.dim), matrix;
  for (auto [term, factor] : llvm::zip(correction.terms, factorTiles)) {
    Value seen = readOnFastPath(e, term.read, basisState, /*without=*/correction.add);
    rhs = e.add(rhs, times(e, seen, factor, 0));
    // As the reads that are stored take them: later scans compute u from those, and no read corrects
    // there what differs.
    Value products = seenProducts(e, term.read, vectorFor(e, term.read), correction.add,
                                  cancels(correction.add));
    // The later step has a row; in a backward pass the one that reads is the earlier.
    products = times(e, products, factor, isReverse() ? 1 : 0);
    matrix = matrix ? e.add(matrix, products) : products;
  }
  return e.solve(matrix, rhs, /*transposed=*/isReverse());
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

Value ChunkedState::correctedRow(TileBuilder &e, Value row, ArrayRef<Value> reads) {
  const StateChain::Correction &correction = *chain.correction;
  Value sum = e.row(addTiles[correction.dim][correction.add], row);
  for (auto [term, factor] : llvm::zip(correction.terms, factorTiles)) {
    Value number = e.row(factor, row);
    Value wide = e.broadcast(number, cast<VectorType>(sum.getType()));
    sum = e.add(sum, e.mul(wide, reads[term.read]));
  }
  return sum;
}
