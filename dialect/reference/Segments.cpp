//===- Segments.cpp - the states that segments start from -----------------===//
#include "dialect/reference/Handlers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

LogicalResult ejk::reference::interpretCombineSegments(CombineSegmentsOp op, Operands operands,
                                                       Results &results, const Options &options) {
  const Tensor &totals = *operands[0], &transitions = *operands[1], &like = *operands.back();
  const Tensor *remembered = op.getRemembered() ? operands[2] : nullptr;
  const Tensor *initial = op.getInitial() ? operands[2 + (remembered ? 1 : 0)] : nullptr;
  const Tensor *offsets = op.getOffsets() ? operands[operands.size() - 2] : nullptr;
  int64_t segments = totals.shape[0], heads = totals.shape[1], K = totals.shape[2],
          V = totals.shape[3];
  int64_t sequences = offsets ? offsets->shape[0] - 1 : like.shape[0];
  auto refuse = [&](const Twine &why) { return op.emitError() << why.str(); };
  if (transitions.shape[0] != segments || transitions.shape[1] != heads)
    return refuse("there must be a transition for each segment and head");
  if (sequences < 0 || (!offsets && (sequences ? segments % sequences : segments)))
    return refuse("each sequence of a batch must have as many segments as the others");
  if (remembered && (remembered->shape[0] != segments || remembered->shape[1] != heads))
    return refuse("'remembered' must have a number for each segment and head");
  if (initial && (initial->shape[0] != sequences || initial->shape[1] != heads))
    return refuse("there must be an initial state for each sequence and head");
  if (offsets)
    for (int64_t n = 0; n < sequences; ++n)
      if (offsets->ints[n] < 0 || offsets->ints[n] > offsets->ints[n + 1] ||
          offsets->ints[n + 1] > segments)
        return refuse("the offsets must ascend from 0 to the number of segments");
  if (failed(addResult(op, op.getStarts().getType(), totals.shape, results)) ||
      failed(addResult(op, op.getFinalState().getType(), {sequences, heads, K, V}, results)))
    return failure();
  Tensor &starts = results[results.size() - 2], &final = results.back();
  bool isNative = options.precision == Precision::native;
  auto rounded = [&](double x) { return isNative ? double(float(x)) : x; };
  parallelFor(sequences * heads, options, [&](size_t i) {
    int64_t n = i / heads, h = i % heads;
    int64_t first = offsets ? offsets->ints[n] : n * (segments / sequences);
    int64_t end = offsets ? offsets->ints[n + 1] : first + segments / sequences;
    std::vector<double> state(K * V);
    if (initial)
      std::copy_n(initial->floats.begin() + i * K * V, K * V, state.begin());
    for (int64_t j = first; j < end; ++j) {
      int64_t segment = op.getReverse() ? first + end - 1 - j : j;
      size_t place = segment * heads + h;
      std::copy(state.begin(), state.end(), starts.floats.begin() + place * K * V);
      const double *matrix = transitions.floats.data() + place * K * K;
      std::vector<double> next(totals.floats.begin() + place * K * V,
                               totals.floats.begin() + (place + 1) * K * V);
      if (remembered && remembered->floats[place] < 1) {
        state = std::move(next);
        continue;
      }
      for (int64_t row = 0; row < K; ++row)
        for (int64_t column = 0; column < V; ++column) {
          double sum = 0;
          for (int64_t k = 0; k < K; ++k)
            sum = rounded(sum + rounded(matrix[row * K + k] * state[k * V + column]));
          next[row * V + column] = rounded(sum + next[row * V + column]);
        }
      state = std::move(next);
    }
    std::copy(state.begin(), state.end(), final.floats.begin() + i * K * V);
  });
  return success();
}

LogicalResult ejk::reference::interpretSegmentStarts(SegmentStartsOp op, Operands operands,
                                                     Results &results) {
  const Tensor &saves = *operands[0], &like = *operands.back();
  const Tensor *initial = op.getInitial() ? operands[1] : nullptr;
  const Tensor *cu = op.getCuSeqlens() ? operands[operands.size() - 2] : nullptr;
  int64_t steps = like.shape[1], heads = saves.shape[1], every = op.getEvery();
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, cu, like.shape[0], steps);
  if (failed(spans))
    return failure();
  int64_t sequences = spans->size();
  if (saves.shape[0] != like.shape[0] * steps / every + sequences)
    return op.emitError("there must be a saved state for each chunk");
  if (initial && (initial->shape[0] != sequences || initial->shape[1] != heads))
    return op.emitError("there must be an initial state for each sequence and head");
  std::vector<Segment> segments = segmentsOf(*spans, op.getSegments(), steps, cu);
  if (failed(addResult(op, op.getStarts().getType(),
                       {int64_t(segments.size()), heads, saves.shape[2], saves.shape[3]}, results)))
    return failure();
  int64_t size = heads * saves.shape[2] * saves.shape[3];
  auto copy = [&](const Tensor &from, int64_t place, size_t to) {
    std::copy_n(from.floats.begin() + place * size, size,
                results.back().floats.begin() + to * size);
  };
  for (auto [s, segment] : llvm::enumerate(segments)) {
    if (segment.begin == segment.end)
      continue;
    Span span = (*spans)[segment.sequence];
    int64_t row = cu ? span.begin : segment.sequence * steps;
    int64_t slot = row / every + segment.sequence + (segment.begin - span.begin) / every;
    if (op.getReverse() ? segment.end < span.end : segment.begin > span.begin)
      copy(saves, slot + (op.getReverse() ? 1 : -1), s);
    else if (initial)
      copy(*initial, segment.sequence, s);
  }
  return success();
}
