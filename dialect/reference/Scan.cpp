//===- Scan.cpp - the canonical loop over time ----------------------------===//
#include "dialect/reference/StepProgram.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// A tensor that the scan reads or writes one row at a time.
struct Rows {
  double *data;
  int64_t heads;
  size_t channels;

  double *at(int64_t row, int64_t head) const { return data + (row * heads + head) * channels; }
};

struct Parameter {
  const Tensor *tensor;
  unsigned prefix; // leading dimensions: [], [H'] or [N,H']
  int64_t heads;
};

/// Operands of a scan and their sizes.
struct ScanInputs {
  Operands sequences, queries;
  std::vector<Parameter> parameters;
  std::vector<const Tensor *> initialStates; // null for zero
  Operands savedStates;
  int64_t B, T, H, Hq, N, slots = 0;
  std::vector<Span> spans;
  /// What each state belongs to.
  std::vector<Segment> segments;
  const Tensor *remembered = nullptr;
};
} // namespace

static FailureOr<ScanInputs> readInputs(ScanOp op, Operands operands) {
  ScanInputs in;
  SizeCheck sizes(op);
  size_t numSequences = op.getSequences().size(), numQueries = op.getQueries().size(),
         numParameters = op.getParameters().size();
  in.sequences = operands.take_front(numSequences);
  for (auto [i, tensor] : llvm::enumerate(in.sequences)) {
    std::string name = indexed("sequence", i), heads = i ? name + "'s heads" : "H";
    StringRef letters[] = {"B", "T", heads};
    if (failed(sizes.check(*tensor, name, letters)) ||
        failed(sizes.checkHeads(name, sizes.size(heads), sizes.size("H"))))
      return failure();
  }
  in.B = sizes.size("B"), in.T = sizes.size("T"), in.H = in.Hq = sizes.size("H");
  in.queries = operands.slice(numSequences, numQueries);
  for (auto [i, tensor] : llvm::enumerate(in.queries)) {
    StringRef letters[] = {"B", "T", "Hq"};
    if (failed(sizes.check(*tensor, indexed("query", i), letters)) ||
        failed(sizes.checkHeads("sequence 0", in.H, sizes.size("Hq"), "Hq")))
      return failure();
    in.Hq = sizes.size("Hq");
  }
  in.remembered = op.getRemembered() ? operands.back() : nullptr;
  const Tensor *cu =
      op.getCuSeqlens() ? operands.drop_back(in.remembered ? 1 : 0).back() : nullptr;
  if (cu)
    sizes.bind("N", int64_t(cu->size()) - 1, "'cu_seqlens'");
  else
    sizes.bind("N", in.B, "the batch");
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, cu, in.B, in.T);
  if (failed(spans))
    return failure();
  in.spans = std::move(*spans);
  in.N = in.spans.size();
  in.segments = segmentsOf(in.spans, op.getSegmentsAttr(), in.T, cu);
  sizes.bind("segments", in.segments.size(), op.getSegments() ? "'segments'" : "N");
  if (in.remembered && failed(sizes.check(*in.remembered, "remembered", {"segments", "H"})))
    return failure();

  for (size_t i = 0; i < numParameters; ++i) {
    const Tensor *tensor = operands[numSequences + numQueries + i];
    auto step = dyn_cast<VectorType>(op.getParameterArgs()[i].getType());
    Parameter p{tensor, unsigned(tensor->rank() - (step ? step.getRank() : 0)), 1};
    std::string name = indexed("parameter", i), heads = name + "'s heads";
    StringRef letters[] = {"N", heads};
    if (p.prefix) {
      if (failed(sizes.check(*tensor, name, ArrayRef<StringRef>(letters).take_back(p.prefix))))
        return failure();
      p.heads = sizes.size(heads);
      if (failed(sizes.checkHeads(name, p.heads, in.H)))
        return failure();
    }
    in.parameters.push_back(p);
  }
  size_t next = numSequences + numQueries + numParameters;
  for (unsigned i = 0; i < op.getNumStates(); ++i) {
    const Tensor *initial = op.getHasInitial()[i] ? operands[next++] : nullptr;
    if (initial && failed(sizes.check(*initial, indexed("state", i), {"segments", "H"})))
      return failure();
    in.initialStates.push_back(initial);
  }
  in.savedStates = operands.slice(next, op.getSavedStates().size());
  if (auto every = op.getSaveEvery())
    in.slots = in.B * in.T / int64_t(*every) + in.N;
  for (auto [i, saved] : llvm::enumerate(in.savedStates)) {
    if (failed(sizes.check(*saved, indexed("saved state", i), {"slots", "H"})))
      return failure();
    if (saved->shape[0] != in.slots)
      return op.emitError() << "saved state " << i << " must have " << in.slots
                            << " slots, but has " << saved->shape[0];
  }
  return in;
}

LogicalResult ejk::reference::interpretScan(ScanOp op, Operands operands, Results &results,
                                            const Options &options) {
  FailureOr<ScanInputs> inputs = readInputs(op, operands);
  if (failed(inputs))
    return failure();
  FailureOr<StepProgram> compiled = StepProgram::compile(op, options.precision);
  if (failed(compiled))
    return failure();
  ScanInputs &in = *inputs;
  StepProgram &program = *compiled;

  auto shapeOf = [](Type type, std::initializer_list<int64_t> prefix) {
    SmallVector<int64_t> shape(prefix);
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape().drop_front(prefix.size()));
    return shape;
  };
  llvm::DenseSet<Value> queryValues = op.findQueryValues();
  SmallVector<bool> isOfQuery = llvm::map_to_vector(
      op.getYield().getOutputs(), [&](Value output) { return queryValues.contains(output); });
  for (auto [type, ofQuery] : llvm::zip(op.getOutputs().getTypes(), isOfQuery))
    if (failed(addResult(op, type, shapeOf(type, {in.B, in.T, ofQuery ? in.Hq : in.H}), results)))
      return failure();
  for (Type type : op.getFinalStates().getTypes())
    if (failed(addResult(op, type, shapeOf(type, {int64_t(in.segments.size()), in.H}), results)))
      return failure();
  for (Type type : op.getSaves().getTypes()) {
    if (failed(addResult(op, type, shapeOf(type, {in.slots, in.H}), results)))
      return failure();
    // Slots that no chunk has stay undefined.
    llvm::fill(results.back().floats, std::numeric_limits<double>::quiet_NaN());
  }

  // A row that the step does not use is not read.
  std::vector<std::pair<Rows, Slot>> reads, queryReads, writes;
  for (auto [i, tensor] : llvm::enumerate(in.sequences))
    if (!op.getSequenceArgs()[i].use_empty()) {
      Slot slot = program.sequences()[i];
      reads.push_back(
          {{const_cast<double *>(tensor->floats.data()), tensor->shape[2], slot.size}, slot});
    }
  for (auto [tensor, slot] : llvm::zip(in.queries, program.queries()))
    queryReads.push_back({{const_cast<double *>(tensor->floats.data()), in.Hq, slot.size}, slot});
  for (auto [i, slot] : llvm::enumerate(program.outputs()))
    writes.push_back({{results[i].floats.data(), isOfQuery[i] ? in.Hq : in.H, slot.size}, slot});
  int64_t group = in.H ? in.Hq / in.H : 1;
  MutableArrayRef<Tensor> finals =
      MutableArrayRef<Tensor>(results.data(), results.size()).drop_front(writes.size());
  MutableArrayRef<Tensor> saves = finals.drop_front(op.getNumStates());
  int64_t every = op.getSaveEvery().value_or(0);
  bool native = options.precision == Precision::native;

  Progress progress(options, size_t(in.B) * in.T * in.H);
  parallelFor(in.segments.size() * in.H, options, [&](size_t job) {
    Segment segment = in.segments[job / in.H];
    if (op.getTrailing() && (!in.remembered || in.remembered->floats[job] < 1))
      segment = segment.trailing(*op.getTrailing(), op.getReverse());
    int64_t n = segment.sequence, h = job % in.H;
    Span span = in.spans[n];
    Frame frame = program.makeFrame();
    frame.numHeads = in.Hq;
    for (auto [p, slot] : llvm::zip(in.parameters, program.parameters())) {
      int64_t entry = p.prefix ? h / (in.H / p.heads) : 0;
      if (p.prefix == 2)
        entry += n * p.heads;
      std::copy_n(p.tensor->floats.data() + entry * slot.size, slot.size, frame.at(slot));
    }
    for (auto [initial, slot] : llvm::zip(in.initialStates, program.states()))
      if (initial)
        std::copy_n(initial->floats.data() + job * slot.size, slot.size, frame.at(slot));
    int64_t length = span.end - span.begin, steps = segment.end - segment.begin;
    for (int64_t i = 0; i < steps; ++i) {
      int64_t t = op.getReverse() ? segment.end - 1 - i : segment.begin + i;
      int64_t row = span.batch * in.T + t;
      for (const auto &[rows, slot] : reads)
        std::copy_n(rows.at(row, h / (in.H / rows.heads)), slot.size, frame.at(slot));
      int64_t position = t - span.begin, slot = 0;
      frame.stepIndex = position;
      frame.inFirstRow = position == 0;
      frame.inLastRow = position == length - 1;
      bool leavesChunk = false;
      if (every) {
        bool atStart = position % every == 0;
        bool atEnd = (position + 1) % every == 0 || position == length - 1;
        frame.entersChunk = op.getReverse() ? atEnd : atStart;
        leavesChunk = op.getReverse() ? atStart : atEnd;
        slot = (span.batch * in.T + span.begin) / every + n + position / every;
        if (frame.entersChunk)
          for (auto [saved, to] : llvm::zip(in.savedStates, program.savedStates()))
            std::copy_n(saved->floats.data() + (slot * in.H + h) * to.size, to.size, frame.at(to));
      }
      // Each of the group's queries once; what does not depend on them stays the same.
      for (int64_t query = h * group; query < (h + 1) * group; ++query) {
        frame.head = query;
        for (const auto &[rows, slot] : queryReads)
          std::copy_n(rows.at(row, query), slot.size, frame.at(slot));
        program.run(frame);
        for (auto [write, ofQuery] : llvm::zip(writes, isOfQuery)) {
          const auto &[rows, slot] = write;
          std::copy_n(frame.at(slot), slot.size, rows.at(row, ofQuery ? query : h));
        }
      }
      if (leavesChunk)
        for (auto [save, from] : llvm::zip(saves, program.saves()))
          for (size_t e = 0; e < from.size; ++e) {
            double x = frame.at(from)[e];
            save.floats[(slot * in.H + h) * from.size + e] = native ? roundTo(save.element, x) : x;
          }
      program.advanceStates(frame);
      if (i % 256 == 255)
        progress.add(256);
    }
    progress.add(steps % 256);
    for (auto [final, slot] : llvm::zip(finals, program.states()))
      std::copy_n(frame.at(slot), slot.size, final.floats.data() + job * slot.size);
  });
  return success();
}

LogicalResult ejk::reference::interpretHeads(Operation *op, Operands operands, Results &results) {
  const Tensor &from = *operands[0], &like = *operands[1];
  bool repeats = isa<RepeatHeadsOp>(op);
  int64_t given = from.shape[1];
  int64_t wanted =
      like.shape[repeats ? cast<RepeatHeadsOp>(op).getDim() : cast<FirstHeadsOp>(op).getDim()];
  SizeCheck sizes(op);
  SmallVector<int64_t> shape(from.shape.begin(), from.shape.end());
  shape[1] = wanted;
  if (failed(sizes.checkHeads("states", repeats ? given : wanted, repeats ? wanted : given)) ||
      failed(addResult(op, op->getResult(0).getType(), shape, results)))
    return failure();
  size_t inner = 1;
  for (int64_t size : ArrayRef(from.shape).drop_front(2))
    inner *= size;
  bool firstOnly = repeats && cast<RepeatHeadsOp>(op).getFirstOnly();
  Tensor &result = results.back();
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t h = 0; h < wanted; ++h) {
      int64_t source = repeats ? h / (wanted / given) : h * (given / wanted);
      if (!firstOnly || h % (wanted / given) == 0)
        std::copy_n(from.floats.begin() + (n * given + source) * inner, inner,
                    result.floats.begin() + (n * wanted + h) * inner);
    }
  return success();
}

LogicalResult ejk::reference::interpretSumHeads(SumHeadsOp op, Operands operands, Results &results,
                                                const Options &options) {
  const Tensor &from = *operands[0], &like = *operands[1];
  size_t dim = op.getDim(), inner = 1, outer = 1;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (d != dim && from.shape[d] != like.shape[d])
      return op.emitError() << "the tensor and 'like' must agree in dimension " << d
                            << ", but have shapes " << spellShape(from.shape) << " and "
                            << spellShape(like.shape);
    if (d != dim)
      (d < dim ? outer : inner) *= from.shape[d];
  }
  SizeCheck sizes(op);
  size_t heads = like.shape[dim];
  if (failed(sizes.checkHeads("like", heads, from.shape[dim])) ||
      failed(addResult(op, op.getType(), like.shape, results)))
    return failure();
  size_t group = heads ? from.shape[dim] / heads : 0;
  Tensor &result = results.back();
  bool native = options.precision == Precision::native;
  for (size_t o = 0; o < outer * heads; ++o)
    for (size_t i = 0; i < inner; ++i) {
      double sum = 0;
      for (size_t g = 0; g < group; ++g) {
        sum += from.floats[(o * group + g) * inner + i];
        if (native)
          sum = double(float(sum));
      }
      result.floats[o * inner + i] = native ? roundTo(result.element, sum) : sum;
    }
  return success();
}
