//===- Tile.cpp - a block program over its sequences and heads ------------===//
#include "dialect/reference/TileProgram.h"
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// The operands and results of a program, and the parts of them that belong to a sequence and head.
class TileRun {
public:
  TileRun(tile::ProgramOp op, Operands operands, Results &results, const Options &options)
      : op(op), operands(operands), results(results), options(options), sizes(op) {}
  LogicalResult bind();
  LogicalResult run(const TileProgram &program);

private:
  LogicalResult checkSequences();
  LogicalResult checkOthers();
  LogicalResult addResults();
  /// The arguments for segment `number` and head h.
  void place(TileFrame &frame, const TileProgram &program, int64_t number, int64_t h);
  void placeParameter(TileFrame &frame, const TileProgram &program, unsigned argument,
                      const Tensor &tensor, int64_t n, int64_t h);
  int64_t numSlots(const Segment &segment) { return ceilDiv(segment.end - segment.begin); }
  int64_t firstSlot(const Segment &segment) {
    const Span &span = spans[segment.sequence];
    return (span.batch * T + span.begin) / every() + segment.sequence +
           (segment.begin - span.begin) / every();
  }
  int64_t ceilDiv(int64_t rows) { return (rows + every() - 1) / every(); }
  int64_t every() { return *op.getSaveEvery(); }

  tile::ProgramOp op;
  Operands operands;
  Results &results;
  const Options &options;
  SizeCheck sizes;
  int64_t B = 0, T = 0, H = 0;
  std::vector<Span> spans;
  std::vector<Segment> segments;
  const Tensor *remembered = nullptr, *skipped = nullptr;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

LogicalResult TileRun::checkSequences() {
  for (size_t i = 0; i < op.getSequences().size(); ++i) {
    std::string name = indexed("sequence", i), heads = i ? name + "'s heads" : "H";
    StringRef letters[] = {"B", "T", heads};
    if (failed(sizes.check(*operands[i], name, letters)) ||
        failed(sizes.checkHeads(name, sizes.size(heads), sizes.size("H"))))
      return failure();
  }
  B = sizes.size("B"), T = sizes.size("T"), H = sizes.size("H");
  Operands left = operands.drop_back(op.getInto().size());
  auto takeLast = [&](Value operand) -> const Tensor * {
    return operand ? std::exchange(left, left.drop_back()).back() : nullptr;
  };
  skipped = takeLast(op.getSkipped());
  remembered = takeLast(op.getRemembered());
  takeLast(op.getTurns());
  const Tensor *cu = takeLast(op.getCuSeqlens());
  FailureOr<std::vector<Span>> found = sequenceSpans(op, cu, B, T);
  if (failed(found))
    return failure();
  spans = std::move(*found);
  sizes.bind("N", spans.size(), cu ? "'cu_seqlens'" : "the batch");
  segments = segmentsOf(spans, op.getSegmentsAttr(), T, cu);
  sizes.bind("segments", segments.size(), op.getSegments() ? "'segments'" : "N");
  auto check = [&](const Tensor *flags, StringRef name, StringRef count) {
    return flags ? sizes.check(*flags, name, {count, "H"}) : success();
  };
  return success(succeeded(check(remembered, "remembered", "segments")) &&
                 succeeded(check(skipped, "skipped", "N")));
}

LogicalResult TileRun::checkOthers() {
  size_t next = op.getSequences().size();
  for (size_t i = 0; i < op.getParameters().size(); ++i) {
    const Tensor &tensor = *operands[next++];
    auto slots = dyn_cast<tile::SlotsType>(op.getParameterArgs()[i].getType());
    int64_t walked = tensor.rank() - bool(slots);
    std::string name = indexed("parameter", i), heads = name + "'s heads";
    StringRef letters[] = {"N", heads};
    if (walked &&
        (failed(sizes.check(tensor, name, ArrayRef<StringRef>(letters).take_back(walked))) ||
         failed(sizes.checkHeads(name, sizes.size(heads), H))))
      return failure();
  }
  for (size_t i = 0; i < op.getInitialStates().size(); ++i)
    if (failed(sizes.check(*operands[next++], indexed("initial state", i), {"segments", "H"})))
      return failure();
  if (op.getSaveEvery())
    sizes.bind("M", B * T / every() + int64_t(spans.size()), "the grid of saved states");
  for (size_t i = 0; i < op.getSavedStates().size(); ++i)
    if (failed(sizes.check(*operands[next++], indexed("saved state", i), {"M", "H"})))
      return failure();
  return success();
}

LogicalResult TileRun::addResults() {
  auto add = [&](TypeRange types, std::initializer_list<int64_t> walked) -> LogicalResult {
    for (Type type : types) {
      SmallVector<int64_t> shape(walked);
      llvm::append_range(shape, cast<RankedTensorType>(type).getShape().drop_front(walked.size()));
      if (failed(addResult(op, type, shape, results)))
        return failure();
      // Undefined until stored.
      llvm::fill(results.back().floats, std::numeric_limits<double>::quiet_NaN());
    }
    return success();
  };
  if (failed(add(op.getOutputs().getTypes(), {B, T, H})))
    return failure();
  // Rows after the last offset are those of no program.
  if (op.getCuSeqlens())
    for (Tensor &output : results)
      llvm::fill(MutableArrayRef(output.floats).drop_front(
                     output.floats.size() / std::max<int64_t>(T, 1) *
                     (spans.empty() ? 0 : spans.back().end)),
                 0.0);
  if (failed(add(op.getFinalStates().getTypes(), {sizes.size("segments"), H})) ||
      (op.getSaveEvery() && failed(add(op.getSaves().getTypes(), {sizes.size("M"), H}))))
    return failure();
  ArrayRef<int64_t> numbers = op.getIntoResults().value_or(ArrayRef<int64_t>());
  for (auto [number, start] : llvm::zip(numbers, operands.take_back(numbers.size()))) {
    Tensor &result = results[number];
    if (result.shape != start->shape)
      return op.emitError("a tensor of 'into' has other sizes than its result");
    result.floats = start->floats;
  }
  return success();
}

LogicalResult TileRun::bind() {
  if (failed(checkSequences()) || failed(checkOthers()))
    return failure();
  return addResults();
}

//===----------------------------------------------------------------------===//
// One sequence and head
//===----------------------------------------------------------------------===//

static size_t numElements(ArrayRef<int64_t> shape) {
  size_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

void TileRun::placeParameter(TileFrame &frame, const TileProgram &program, unsigned argument,
                             const Tensor &tensor, int64_t n, int64_t h) {
  bool isSlot = isa<tile::SlotsType>(op.getBlock().getArgument(argument).getType());
  size_t walked = tensor.rank() - isSlot,
         size = numElements(ArrayRef(tensor.shape).drop_front(walked));
  int64_t heads = walked ? tensor.shape[walked - 1] : 1;
  int64_t entry = walked ? h / (H / heads) : 0;
  if (walked == 2)
    entry += n * heads;
  if (isSlot)
    frame.memory[argument] = {const_cast<double *>(tensor.floats.data()) + entry * size, 1, size};
  else
    *frame.at(program.argument(argument)) = tensor.floats[entry];
}

void TileRun::place(TileFrame &frame, const TileProgram &program, int64_t number, int64_t h) {
  Segment segment = segments[number];
  if (op.getTrailing() && (!remembered || remembered->floats[number * H + h] < 1))
    segment = segment.trailing(*op.getTrailing(), op.getTrailingReverse());
  int64_t n = segment.sequence;
  const Span &span = spans[n];
  unsigned argument = 0;
  // Entries `first` to first+count-1 of the tensor's leading dimensions, for head h.
  auto entries = [&](const Tensor &tensor, unsigned walked, int64_t first, int64_t count) {
    int64_t heads = tensor.shape[walked - 1];
    size_t size = numElements(ArrayRef(tensor.shape).drop_front(walked));
    int64_t head = heads ? h / (H / heads) : 0;
    frame.memory[argument++] = {const_cast<double *>(tensor.floats.data()) +
                                    (first * heads + head) * size,
                                count, heads * size};
  };
  int64_t firstRow = span.batch * T + segment.begin, length = segment.end - segment.begin;
  size_t operand = 0, result = 0;
  for (size_t i = 0; i < op.getSequences().size(); ++i)
    entries(*operands[operand++], 3, firstRow, length);
  for (size_t i = 0; i < op.getParameters().size(); ++i)
    placeParameter(frame, program, argument++, *operands[operand++], n, h);
  for (size_t i = 0; i < op.getInitialStates().size(); ++i)
    entries(*operands[operand++], 2, number, 1);
  for (size_t i = 0; i < op.getSavedStates().size(); ++i)
    entries(*operands[operand++], 2, firstSlot(segment), numSlots(segment));
  for (size_t i = 0; i < op.getOutputs().size(); ++i)
    entries(results[result++], 3, firstRow, length);
  for (size_t i = 0; i < op.getFinalStates().size(); ++i)
    entries(results[result++], 2, number, 1);
  for (size_t i = 0; i < op.getSaves().size(); ++i)
    entries(results[result++], 2, firstSlot(segment), numSlots(segment));
  frame.length = length;
  frame.firstPosition = segment.begin - span.begin;
  frame.sequenceLength = span.end - span.begin;
  frame.head = h;
  frame.numHeads = H;
}

LogicalResult TileRun::run(const TileProgram &program) {
  Progress progress(options, size_t(B) * T * H);
  std::vector<TileProblem> problems(segments.size() * H);
  parallelFor(problems.size(), options, [&](size_t job) {
    if (skipped && skipped->floats[segments[job / H].sequence * H + job % H] >= 1)
      return;
    TileFrame frame = program.makeFrame();
    place(frame, program, job / H, job % H);
    if (options.partitionSeed)
      frame.partitionSeed = *options.partitionSeed + job;
    // Slices run one after another, because they may store equal values to the same place.
    for (frame.slice = 0; frame.slice < int64_t(op.getSlices()); ++frame.slice)
      if (!program.run(frame)) {
        problems[job] = frame.problem;
        return;
      }
    progress.add(frame.length);
  });
  for (const TileProblem &problem : problems)
    if (problem.at) {
      InFlightDiagnostic error = problem.at->emitError(problem.what);
      for (auto &[at, note] : problem.notes)
        error.attachNote(at->getLoc()) << note;
      return error;
    }
  return success();
}

LogicalResult ejk::reference::interpretTileProgram(tile::ProgramOp op, Operands operands,
                                                   Results &results, const Options &options) {
  FailureOr<TileProgram> program = TileProgram::compile(op, options);
  if (failed(program))
    return failure();
  TileRun run(op, operands, results, options);
  if (failed(run.bind()))
    return failure();
  return run.run(*program);
}
