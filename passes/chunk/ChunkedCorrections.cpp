//===- ChunkedCorrections.cpp - what a chunk's steps add to correct it -----===//
#include "passes/chunk/ChunkedState.h"

using namespace mlir;
using namespace ejk;

Value ChunkedState::solveCorrection(TileBuilder &e, Value basisState) {
  const StateChain::Correction &correction = *chain.correction;
  if (correction.isMultiple) {
    // With u = c y, the read y solves a system, too, in which c is the number of the step that adds.
    const StateChain::Correction::Term &term = correction.terms.front();
    Value seen = readOnFastPath(e, term.read, basisState, /*without=*/correction.add);
    Value products =
        seenProducts(e, term.read, readVector(e, term.read, /*inBasis=*/true), correction.add);
    products = times(e, products, factorTiles.front(), isReverse() ? 0 : 1);
    solvedRead = e.solve(products, seen, /*transposed=*/isReverse());
    return times(e, solvedRead, factorTiles.front(), 0);
  }
  // What does not depend on the reads is still in the place of what is added.
  Value rhs = addTile(e, correction.add, correction.dim), matrix;
  for (auto [term, factor] : llvm::zip(correction.terms, factorTiles)) {
    Value seen = readOnFastPath(e, term.read, basisState, /*without=*/correction.add);
    rhs = e.add(rhs, times(e, seen, factor, 0));
    Value products =
        seenProducts(e, term.read, readVector(e, term.read, /*inBasis=*/true), correction.add);
    // The later step has a row; in a backward pass the one that reads is the earlier.
    products = times(e, products, factor, isReverse() ? 1 : 0);
    matrix = matrix ? e.add(matrix, products) : products;
  }
  return e.solve(matrix, rhs, /*transposed=*/isReverse());
}

Value ChunkedState::addCorrected(TileBuilder &e, Value products, Value sum) {
  auto split = [&](Value x) {
    Value first = e.round(x, plan.operandType);
    return std::pair(first, e.round(e.sub(x, e.widen(first)), plan.operandType));
  };
  bool transposed = isReverse();
  if (plan.operandType.isF32())
    return e.dot(products, transposed, corrected, false, sum);
  auto [left, leftRest] = split(products);
  auto [right, rightRest] = split(corrected);
  sum = e.dot(leftRest, transposed, right, false, sum);
  sum = e.dot(left, transposed, rightRest, false, sum);
  return e.dot(left, transposed, right, false, sum);
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
