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

/// The shape of a slot as states have it.
static SmallVector<int64_t> shapeOfStates(const Tensor &pool, bool valueMajor) {
  SmallVector<int64_t> shape(pool.shape.begin(), pool.shape.end());
  if (valueMajor)
    std::swap(shape[2], shape[3]);
  return shape;
}

namespace {
/// Where element `e` of a state lies in its slot.
class PlaceInSlot {
public:
  PlaceInSlot(const Tensor &pool, bool valueMajor) : valueMajor(valueMajor) {
    if (valueMajor) {
      values = pool.shape[2];
      keys = pool.shape[3];
    }
  }
  size_t operator()(size_t e) const {
    if (!valueMajor)
      return e;
    size_t head = e / (keys * values), inHead = e % (keys * values);
    return head * keys * values + inHead % values * keys + inHead / values;
  }

private:
  bool valueMajor;
  size_t keys = 1, values = 1;
};
} // namespace

LogicalResult ejk::reference::interpretReadStates(ReadStatesOp op, Operands operands,
                                                  Results &results) {
  const Tensor &pool = *operands[0], &index = *operands[1];
  const Tensor *accepted = op.getAccepted() ? operands[2] : nullptr;
  SmallVector<int64_t> shape = shapeOfStates(pool, op.getValueMajor());
  shape[0] = index.shape[0];
  if (failed(checkIndex(op, pool, index)) || failed(addResult(op, op.getType(), shape, results)))
    return failure();
  size_t each = elementsPerState(pool);
  PlaceInSlot place(pool, op.getValueMajor());
  for (int64_t n = 0; n < shape[0]; ++n) {
    size_t entry = n;
    if (accepted) {
      int64_t rows = index.shape[1], count = accepted->ints[n];
      if (count < 1 || count > rows)
        return op.emitError() << "accepted row " << count << " of sequence " << n
                              << " is none of 1 to " << rows;
      entry = n * rows + count - 1;
    }
    int64_t slot = index.ints[entry];
    if (slot < int64_t(op.getFirstSlot()))
      continue;
    for (size_t e = 0; e < each; ++e)
      results.back().floats[n * each + e] = pool.floats[slot * each + place(e)];
  }
  return success();
}

namespace {
/// What `ejk.write_states` stores: state `state` to slot `slot`.
struct StateMove {
  int64_t state, slot;
};
} // namespace

/// In the order of sequences and rows; fails where an offset is wrong.
static FailureOr<std::vector<StateMove>> movesOf(WriteStatesOp op, const Tensor &states,
                                                 const Tensor &index, const Tensor *cuSeqlens) {
  std::vector<StateMove> moves;
  int64_t sequences = index.shape[0];
  if (!op.isPerRow()) {
    for (int64_t n = 0; n < sequences; ++n)
      moves.push_back({n, index.ints[n]});
    return moves;
  }
  // A scan that saves after each row has a saved state for each row, and one more for each sequence.
  int64_t indexed = index.shape[1], rows = states.shape[0] - sequences;
  int64_t batch = cuSeqlens ? 1 : sequences;
  FailureOr<std::vector<Span>> spans =
      sequenceSpans(op, cuSeqlens, batch, batch ? rows / batch : 0);
  if (failed(spans))
    return failure();
  for (auto [n, span] : llvm::enumerate(*spans)) {
    int64_t first = span.batch * (batch ? rows / batch : 0) + span.begin;
    for (int64_t t = 0; t < std::min(indexed, span.end - span.begin); ++t)
      moves.push_back({first + int64_t(n) + t, index.ints[n * indexed + t]});
  }
  return moves;
}

LogicalResult ejk::reference::interpretWriteStates(WriteStatesOp op, Operands operands,
                                                   Results &results, const Options &options) {
  const Tensor &states = *operands[0], &pool = *operands[1], &index = *operands[2];
  if (failed(checkIndex(op, pool, index)))
    return failure();
  SmallVector<int64_t> shape = shapeOfStates(pool, op.getValueMajor());
  if ((!op.isPerRow() && states.shape[0] != index.shape[0]) ||
      ArrayRef(states.shape).drop_front() != ArrayRef(shape).drop_front())
    return op.emitError() << "states of shape " << spellShape(states.shape)
                          << " do not go to a pool of shape " << spellShape(pool.shape) << " at "
                          << index.shape[0] << " indices";
  FailureOr<std::vector<StateMove>> moves =
      movesOf(op, states, index, op.getCuSeqlens() ? operands[3] : nullptr);
  if (failed(moves))
    return failure();
  results.push_back(pool);
  Tensor &result = results.back();
  size_t each = elementsPerState(pool);
  PlaceInSlot place(pool, op.getValueMajor());
  bool native = options.precision == Precision::native;
  llvm::DenseSet<int64_t> written;
  for (StateMove move : *moves) {
    if (move.slot < int64_t(op.getFirstSlot()))
      continue;
    if (!written.insert(move.slot).second)
      return op.emitError() << "index " << move.slot << " stands for two "
                            << (op.isPerRow() ? "rows" : "sequences");
    for (size_t e = 0; e < each; ++e) {
      double x = states.floats[move.state * each + e];
      result.floats[move.slot * each + place(e)] = native ? roundTo(result.element, x) : x;
    }
  }
  return success();
}

LogicalResult ejk::reference::interpretZeroSkipped(ZeroSkippedOp op, Operands operands,
                                                   Results &results) {
  const Tensor &rows = *operands[0], &pool = *operands[1];
  ArrayRef<const Tensor *> indices = operands.slice(2, op.getIndices().size());
  const Tensor *cuSeqlens = op.getCuSeqlens() ? operands.back() : nullptr;
  FailureOr<std::vector<Span>> spans =
      sequenceSpans(op, cuSeqlens, rows.shape[0], rows.shape[1]);
  if (failed(spans))
    return failure();
  results.push_back(rows);
  size_t row = 1;
  for (int64_t size : ArrayRef(rows.shape).drop_front(2))
    row *= size;
  for (auto [n, span] : llvm::enumerate(*spans)) {
    bool hasSlot = false;
    for (const Tensor *index : indices) {
      if (failed(checkIndex(op, pool, *index)))
        return failure();
      if (index->shape[0] != int64_t(spans->size()))
        return op.emitError() << "has indices for " << index->shape[0] << " sequences, but rows of "
                              << spans->size();
      size_t each = index->shape.size() == 2 ? index->shape[1] : 1;
      for (size_t t = 0; t < each; ++t)
        hasSlot |= index->ints[n * each + t] >= int64_t(op.getFirstSlot());
    }
    if (hasSlot)
      continue;
    size_t first = span.batch * rows.shape[1] + span.begin, count = span.end - span.begin;
    Tensor &result = results.back();
    if (!result.floats.empty())
      std::fill_n(result.floats.begin() + first * row, count * row, 0);
  }
  return success();
}
