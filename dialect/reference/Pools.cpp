//===- Pools.cpp - states in a pool ---------------------------------------===//
#include "dialect/reference/Handlers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

static size_t elementsPerState(const Tensor &pool) {
  size_t count = 1;
  for (int64_t size : ArrayRef(pool.shape).drop_front())
    count *= size;
  return count;
}

static LogicalResult checkIndex(Operation *op, const Tensor &pool, const Tensor &index) {
  for (int64_t i : index.ints)
    if (i >= pool.shape[0])
      return op->emitError() << "index " << i << " is outside a pool of " << pool.shape[0]
                             << " states";
  return success();
}

LogicalResult ejk::reference::interpretReadStates(ReadStatesOp op, Operands operands,
                                                  Results &results) {
  const Tensor &pool = *operands[0], &index = *operands[1];
  SmallVector<int64_t> shape(pool.shape.begin(), pool.shape.end());
  shape[0] = index.shape[0];
  if (failed(checkIndex(op, pool, index)) || failed(addResult(op, op.getType(), shape, results)))
    return failure();
  size_t each = elementsPerState(pool);
  for (auto [n, i] : llvm::enumerate(index.ints))
    if (i >= 0)
      std::copy_n(pool.floats.begin() + i * each, each, results.back().floats.begin() + n * each);
  return success();
}

LogicalResult ejk::reference::interpretWriteStates(WriteStatesOp op, Operands operands,
                                                   Results &results, const Options &options) {
  const Tensor &states = *operands[0], &pool = *operands[1], &index = *operands[2];
  if (failed(checkIndex(op, pool, index)))
    return failure();
  if (states.shape[0] != index.shape[0] ||
      ArrayRef(states.shape).drop_front() != ArrayRef(pool.shape).drop_front())
    return op.emitError() << "states of shape " << spellShape(states.shape)
                          << " do not go to a pool of shape " << spellShape(pool.shape) << " at "
                          << index.shape[0] << " indices";
  results.push_back(pool);
  Tensor &result = results.back();
  size_t each = elementsPerState(pool);
  bool native = options.precision == Precision::native;
  llvm::DenseSet<int64_t> written;
  for (auto [n, i] : llvm::enumerate(index.ints)) {
    if (i < 0)
      continue;
    if (!written.insert(i).second)
      return op.emitError() << "index " << i << " stands for two sequences";
    for (size_t e = 0; e < each; ++e) {
      double x = states.floats[n * each + e];
      result.floats[i * each + e] = native ? roundTo(result.element, x) : x;
    }
  }
  return success();
}
