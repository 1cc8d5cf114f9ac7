//===- Handlers.cpp - shared parts of the interpreter ----------------------===//
#include "dialect/reference/Handlers.h"
#include "dialect/reference/Threads.h"
#include "llvm/ADT/StringExtras.h"
#include <atomic>
#include <mutex>

using namespace mlir;
using namespace ejk::reference;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void SizeCheck::bind(StringRef letter, int64_t size, StringRef from) {
  bound.try_emplace(letter, size, from.str());
}

int64_t SizeCheck::size(StringRef letter) const {
  auto it = bound.find(letter);
  assert(it != bound.end() && "asked for a size that no operand has");
  return it->second.first;
}

LogicalResult SizeCheck::check(const Tensor &tensor, StringRef name, ArrayRef<StringRef> letters) {
  for (auto [dim, letter] : llvm::enumerate(letters)) {
    int64_t found = tensor.shape[dim];
    auto [it, isNew] = bound.try_emplace(letter, found, ("'" + name + "'").str());
    if (!isNew && it->second.first != found)
      return op->emitError() << "'" << name << "' must be [" << llvm::join(letters, ",")
                             << "] with " << letter << " = " << it->second.first << " as "
                             << it->second.second << " has it, but its shape is "
                             << spellShape(tensor.shape);
  }
  return success();
}

LogicalResult SizeCheck::checkHeads(StringRef name, int64_t divisor, int64_t heads,
                                    StringRef letter) {
  if (divisor == 0 ? heads == 0 : heads % divisor == 0)
    return success();
  return op->emitError() << "'" << name << "' must have a number of heads that divides " << letter
                         << " = " << heads << ", but has " << divisor;
}

FailureOr<std::vector<Span>> ejk::reference::sequenceSpans(Operation *op, const Tensor *cuSeqlens,
                                                           int64_t batch, int64_t steps) {
  std::vector<Span> spans;
  if (!cuSeqlens) {
    for (int64_t b = 0; b < batch; ++b)
      spans.push_back({b, 0, steps});
    return spans;
  }
  if (batch != 1)
    return op->emitError() << "B must be 1 with 'cu_seqlens', but is " << batch;
  const std::vector<int64_t> &offsets = cuSeqlens->ints;
  if (offsets.empty())
    return op->emitError("'cu_seqlens' must have N+1 entries, but has none");
  if (offsets.front() != 0)
    return op->emitError() << "'cu_seqlens' must start at 0, but starts at " << offsets.front();
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1])
      return op->emitError() << "'cu_seqlens' must not decrease, but entry " << i << " is "
                             << offsets[i] << " after " << offsets[i - 1];
    spans.push_back({0, offsets[i - 1], offsets[i]});
  }
  if (offsets.back() > steps)
    return op->emitError() << "'cu_seqlens' must end at T = " << steps << " or before, but ends at "
                           << offsets.back();
  return spans;
}

std::vector<Segment> ejk::reference::segmentsOf(ArrayRef<Span> spans, SegmentsAttr segments,
                                                int64_t steps, bool packed) {
  std::vector<Segment> result;
  if (!segments) {
    for (auto [n, span] : llvm::enumerate(spans))
      result.push_back({int64_t(n), span.begin, span.end});
    return result;
  }
  int64_t rows = segments.rowsOf(steps);
  if (segments.getExact()) {
    for (auto [n, span] : llvm::enumerate(spans))
      for (int64_t place = 0; place < segments.getCount(); ++place)
        if (place == segments.getOnly().value_or(place))
          result.push_back({int64_t(n), std::min(span.begin + place * rows, span.end),
                            std::min(span.begin + (place + 1) * rows, span.end)});
    return result;
  }
  // Those that no sequence has are empty.
  result.resize(segments.countOf(spans.size(), steps, spans.size(), packed));
  for (auto [n, span] : llvm::enumerate(spans)) {
    int64_t slot = packed ? span.begin / rows + n : n * llvm::divideCeil(steps, rows);
    for (int64_t begin = span.begin; begin < span.end; begin += rows)
      result[slot++] = {int64_t(n), begin, std::min(begin + rows, span.end)};
  }
  return result;
}

LogicalResult ejk::reference::addResult(Operation *op, Type type, ArrayRef<int64_t> shape,
                                        Results &results) {
  auto tensor = cast<RankedTensorType>(type);
  for (auto [dim, size] : llvm::enumerate(tensor.getShape()))
    if (!ShapedType::isDynamic(size) && size != shape[dim])
      return op->emitError() << "the result must be " << tensor << ", but has shape "
                             << spellShape(shape) << " on these operands";
  if (!checkSize(shape))
    return op->emitError() << "a tensor of shape " << spellShape(shape)
                           << " is more than the interpreter holds";
  results.push_back(Tensor::zeros(tensor.getElementType(), shape));
  return success();
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

void ejk::reference::parallelFor(size_t count, const Options &options,
                                 llvm::function_ref<void(size_t)> job) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < count;)
      job(i);
  };
  size_t threads = options.threads ? options.threads : std::thread::hardware_concurrency();
  threads = std::min(std::max<size_t>(threads, 1), count);
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) {
    std::optional<std::thread> thread = startThread(work);
    if (!thread)
      break; // fewer threads do the same jobs
    others.push_back(std::move(*thread));
  }
  work();
  for (std::thread &thread : others)
    thread.join();
}

struct Progress::State {
  std::mutex mutex;
  size_t done = 0, total;
  const std::function<void(size_t, size_t)> *report;
};
Progress::Progress(const Options &options, size_t total) {
  if (!options.progress)
    return;
  state = std::make_unique<State>();
  state->total = total;
  state->report = &options.progress;
}
Progress::~Progress() = default;
void Progress::add(size_t steps) {
  if (!state)
    return;
  std::lock_guard<std::mutex> lock(state->mutex);
  state->done += steps;
  (*state->report)(state->done, state->total);
}

LogicalResult ejk::reference::unknownOp(Operation *op) {
  InFlightDiagnostic diag = op->emitError()
                            << "the interpreter does not know '" << op->getName() << "'";
  diag << (op->getNumResults() == 1 && op->getName().getDialectNamespace() == "arith"
               ? " on these types"
               : " here");
  diag.attachNote() << "it runs ejk's recurrences and scans, elementwise arith and math, linalg "
                       "on tensors, and a few tensor and func ops; rewrite with those, or lower "
                       "this op to them first";
  return diag;
}
