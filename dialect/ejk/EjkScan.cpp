//===- EjkScan.cpp - the scan: views, builder, verifier ------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/EjkStep.h"
#include "dialect/ejk/ShapeCheck.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Views and builder
//===----------------------------------------------------------------------===//

Type ScanOp::getStepType(RankedTensorType tensor, unsigned prefix) {
  ArrayRef<int64_t> channels = tensor.getShape().drop_front(prefix);
  if (channels.empty())
    return tensor.getElementType();
  if (llvm::any_of(channels, [](int64_t c) { return c < 1 || c > kMaxChannels; }))
    return Type(); // dynamic or out of range: no step can hold it
  return VectorType::get(channels, tensor.getElementType());
}

ValueRange ScanOp::getSequenceArgs() {
  return getStep().getArguments().take_front(getSequences().size());
}
ValueRange ScanOp::getQueryArgs() {
  return getStep().getArguments().slice(getSequences().size(), getQueries().size());
}
ValueRange ScanOp::getParameterArgs() {
  return getStep().getArguments().slice(getSequences().size() + getQueries().size(),
                                        getParameters().size());
}
ValueRange ScanOp::getSavedArgs() {
  return getStep().getArguments().slice(getSequences().size() + getQueries().size() +
                                            getParameters().size(),
                                        getSavedStates().size());
}
ValueRange ScanOp::getStateArgs() { return getStep().getArguments().take_back(getNumStates()); }

Value ScanOp::getInitialState(unsigned i) {
  ArrayRef<bool> has = getHasInitial();
  if (!has[i])
    return Value();
  return getInitialStates()[llvm::count(has.take_front(i), true)];
}

int64_t ScanOp::countStates(Value first, Value cuSeqlens, SegmentsAttr segments) {
  auto type = cast<RankedTensorType>(first.getType());
  int64_t batch = type.getDimSize(0), rows = type.getDimSize(1), sequences = batch;
  if (cuSeqlens) {
    sequences = cast<RankedTensorType>(cuSeqlens.getType()).getDimSize(0);
    sequences -= !ShapedType::isDynamic(sequences);
  }
  if (!segments || segments.isOneEach())
    return sequences;
  if (ShapedType::isDynamic(rows) || ShapedType::isDynamic(sequences))
    return ShapedType::kDynamic;
  return segments.countOf(batch, rows, sequences, bool(cuSeqlens));
}

YieldOp ScanOp::getYield() { return cast<YieldOp>(getStep().getTerminator()); }

void ScanOp::build(OpBuilder &b, OperationState &state, TypeRange outputTypes, TypeRange stateTypes,
                   ValueRange sequences, ValueRange parameters, TypeRange parameterStepTypes,
                   ArrayRef<Value> initialStates, Value cuSeqlens, bool reverse, int64_t saveEvery,
                   ValueRange savedStates, TypeRange saveTypes, SegmentsAttr segments,
                   ValueRange queries, TrailingRows trailing) {
  assert(initialStates.size() == stateTypes.size() && "one initial state or null per state");
  SmallVector<Value> initials;
  SmallVector<bool> hasInitial;
  for (Value initial : initialStates) {
    hasInitial.push_back(bool(initial));
    if (initial)
      initials.push_back(initial);
  }
  state.addOperands(sequences);
  state.addOperands(queries);
  state.addOperands(parameters);
  state.addOperands(initials);
  state.addOperands(savedStates);
  for (Value optional : {cuSeqlens, trailing.remembered})
    if (optional)
      state.addOperands(optional);
  auto &properties = state.getOrAddProperties<Properties>();
  llvm::copy(ArrayRef<int32_t>{int32_t(sequences.size()), int32_t(queries.size()),
                               int32_t(parameters.size()), int32_t(initials.size()),
                               int32_t(savedStates.size()), cuSeqlens ? 1 : 0,
                               trailing.remembered ? 1 : 0},
             properties.operandSegmentSizes.begin());
  llvm::copy(ArrayRef<int32_t>{int32_t(outputTypes.size()), int32_t(stateTypes.size()),
                               int32_t(saveTypes.size())},
             properties.resultSegmentSizes.begin());
  properties.has_initial = b.getDenseBoolArrayAttr(hasInitial);
  if (reverse)
    properties.reverse = b.getUnitAttr();
  if (saveEvery)
    properties.save_every = b.getI64IntegerAttr(saveEvery);
  properties.segments = segments;
  if (trailing.count)
    properties.trailing = b.getI64IntegerAttr(trailing.count);
  state.addTypes(outputTypes);
  state.addTypes(stateTypes);
  state.addTypes(saveTypes);

  Block &step = state.addRegion()->emplaceBlock();
  for (ValueRange rows : {sequences, queries})
    for (Value tensor : rows)
      step.addArgument(getStepType(cast<RankedTensorType>(tensor.getType()), 3), state.location);
  for (Type type : parameterStepTypes)
    step.addArgument(type, state.location);
  for (Value saved : savedStates)
    step.addArgument(getStepType(cast<RankedTensorType>(saved.getType()), 2), state.location);
  for (Type type : stateTypes)
    step.addArgument(getStepType(cast<RankedTensorType>(type), 2), state.location);
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static std::string indexed(StringRef what, size_t i) { return (what + " " + Twine(i)).str(); }

LogicalResult SegmentsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                   int64_t least, int64_t most, int64_t count, bool exact,
                                   std::optional<int64_t> only) {
  auto isOutside = [](int64_t number) { return number < 1 || number > kMaxRows; };
  bool isWhole = least == 0 && most == 0 && count == 0 && !exact;
  if (!isWhole && (isOutside(least) || isOutside(most) || isOutside(count) || most % least))
    return emitError() << "segments must have a least number of rows that divides the most, and a "
                          "count, all from 1 to "
                       << kMaxRows << " (C1), but have " << least << ", " << most << " and "
                       << count;
  if (only && (!exact || *only < 0 || *only >= count))
    return emitError() << "'only' must be one of 'exactly' so many segments (C2), but is " << *only
                       << " of " << count;
  return success();
}

SegmentsAttr SegmentsAttr::exactly(MLIRContext *context, int64_t count, int64_t least) {
  return get(context, least, kMaxRows / least * least, count, /*exact=*/true, /*only=*/{});
}

SegmentsAttr SegmentsAttr::onlyOf(int64_t number) const {
  return get(getContext(), getLeast(), getMost(), getCount(), getExact(), number);
}

Attribute SegmentsAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  int64_t least = 0, most = 0, count = 0;
  bool exact = false;
  std::optional<int64_t> only;
  if (failed(parser.parseOptionalKeyword("whole"))) {
    if (parser.parseInteger(least))
      return {};
    exact = failed(parser.parseOptionalKeyword("to"));
    if (!exact && parser.parseInteger(most))
      return {};
    if (parser.parseComma() || parser.parseKeyword(exact ? "exactly" : "at_least") ||
        parser.parseInteger(count))
      return {};
    if (exact && succeeded(parser.parseOptionalComma())) {
      if (parser.parseKeyword("only") || parser.parseInteger(only.emplace()))
        return {};
    }
    if (exact && least > 0) // the most that `least` divides
      most = kMaxRows / least * least;
  }
  if (parser.parseGreater())
    return {};
  auto loc = parser.getEncodedSourceLoc(parser.getNameLoc());
  return getChecked([&] { return emitError(loc); }, parser.getContext(), least, most, count, exact,
                    only);
}

void SegmentsAttr::print(AsmPrinter &printer) const {
  if (isWhole())
    printer << "<whole>";
  else if (!getExact())
    printer << "<" << getLeast() << " to " << getMost() << ", at_least " << getCount() << ">";
  else if (getOnly())
    printer << "<" << getLeast() << ", exactly " << getCount() << ", only " << *getOnly() << ">";
  else
    printer << "<" << getLeast() << ", exactly " << getCount() << ">";
}

int64_t SegmentsAttr::rowsOf(int64_t rows) const {
  if (isWhole())
    return rows + 1;
  int64_t wanted = getLeast() * llvm::divideCeil(rows, getLeast() * getCount());
  return std::min(getMost(), std::max(getLeast(), wanted));
}

int64_t SegmentsAttr::countOf(int64_t batch, int64_t rows, int64_t sequences, bool packed) const {
  if (isOneEach())
    return sequences;
  if (getExact())
    return batch * getCount();
  int64_t each = rowsOf(rows);
  return packed ? rows / each + sequences : batch * int64_t(llvm::divideCeil(rows, each));
}

static LogicalResult verifySegments(ScanOp op) {
  SegmentsAttr segments = op.getSegmentsAttr();
  if (!segments)
    return success();
  if (op.getSaveEvery() && segments.getLeast() % *op.getSaveEvery())
    return op.emitOpError() << "'save_every' must divide the least rows of 'segments' (C11), but "
                               "they are "
                            << *op.getSaveEvery() << " and " << segments.getLeast();
  if (op.getCuSeqlens() && segments.getExact())
    return op.emitOpError("packed sequences must not have 'exactly' so many segments (C11)");
  if (op.getCuSeqlens() && segments.getLeast() != segments.getMost())
    return op.emitOpError() << "the segments of packed sequences must have one length (C11), but "
                               "may have from "
                            << segments.getLeast() << " to " << segments.getMost() << " rows";
  return success();
}

LogicalResult ScanOp::verify() {
  ShapeCheck shapes(*this);
  if (getSequences().empty())
    return emitOpError("must have at least one sequence (C1)");
  auto checkRow = [&](Value value, StringRef name, StringRef headLetter,
                      StringRef constraint) -> LogicalResult {
    auto type = cast<RankedTensorType>(value.getType());
    std::string channels = (name + "'s channels").str();
    SmallVector<StringRef> letters = {"B", "T", headLetter};
    if (type.getRank() == 4) {
      letters.push_back(channels);
      if (!getStepType(type, 3))
        return emitOpError() << name << " must have static channels from 1 to " << kMaxChannels
                             << " (C3), but is " << type;
    }
    return shapes.check(value, name, letters, constraint);
  };
  for (auto [i, sequence] : llvm::enumerate(getSequences())) {
    std::string name = indexed("sequence", i), heads = i ? name + "'s heads" : "H";
    if (failed(checkRow(sequence, name, heads, "C1")))
      return failure();
    int64_t h = shapes.size("H"), own = shapes.size(heads);
    if (!ShapedType::isDynamic(h) && !ShapedType::isDynamic(own) && (own == 0 || h % own != 0))
      return emitOpError() << name << "'s head count must divide sequence 0's (C2), but they are "
                           << own << " and " << h;
  }
  for (auto [i, query] : llvm::enumerate(getQueries()))
    if (failed(checkRow(query, indexed("query", i), "Hq", "C12")))
      return failure();
  if (int64_t h = shapes.size("H"), hq = shapes.size("Hq");
      !ShapedType::isDynamic(h) && !ShapedType::isDynamic(hq) && (h == 0 || hq % h != 0))
    return emitOpError() << "sequence 0's head count must divide the queries' (C12), but they are "
                         << h << " and " << hq;
  if (Value cu = getCuSeqlens()) {
    if (failed(shapes.check(cu, "cu_seqlens", {"N+1"}, "C6")))
      return failure();
    int64_t batch = shapes.size("B"), entries = shapes.size("N+1");
    if (!ShapedType::isDynamic(batch) && batch != 1)
      return emitOpError() << "with 'cu_seqlens', B must be 1 (C6), but is " << batch;
    shapes.bind("B", 1, "'cu_seqlens'");
    if (!ShapedType::isDynamic(entries)) {
      if (entries < 1)
        return emitOpError("'cu_seqlens' must have N+1 entries (C6), but has none");
      shapes.bind("N", entries - 1, "'cu_seqlens'");
    }
  } else {
    shapes.bind("N", shapes.size("B"), "the batch");
  }
  // Which heads an output has depends on the step; verifyRegions() checks these.
  for (auto [i, output] : llvm::enumerate(getOutputs()))
    if (std::string name = indexed("output", i);
        failed(checkRow(output, name, getQueries().empty() ? "H" : name + "'s heads", "C7")))
      return failure();

  if (failed(verifySegments(*this)))
    return failure();
  StringRef perState = getSegments() ? "segments" : "N";
  if (getSegments())
    shapes.bind("segments",
                countStates(getSequences().front(), getCuSeqlens(), getSegmentsAttr()),
                "'segments'");

  bool hasRows = !getOutputs().empty() || !getQueries().empty() || !getSavedStates().empty() ||
                 !getSaves().empty();
  if (getSegments() && getSegments()->getOnly() && hasRows)
    return emitOpError(
        "only one of its segments must have no outputs, queries, saved states or saves (C11)");
  if (auto rows = getTrailing()) {
    if (int64_t(*rows) < 1 || int64_t(*rows) > kMaxRows)
      return emitOpError() << "'trailing' must be from 1 to " << kMaxRows << " (C14), but is " << *rows;
    if (!getSegments() || hasRows)
      return emitOpError("'trailing' needs 'segments', and no outputs, queries, saved states or saves "
                         "(C14)");
  }
  if (Value remembered = getRemembered()) {
    if (!getTrailing())
      return emitOpError("'where' needs 'trailing' (C14)");
    if (failed(shapes.check(remembered, "remembered", {"segments", "H"}, "C14")))
      return failure();
  }

  if (getFinalStates().size() != getNumStates() ||
      llvm::count(getHasInitial(), true) != int64_t(getInitialStates().size()))
    return emitOpError() << "'has_initial' must have one entry per state, true where an initial "
                            "state is given (C5), but there are "
                         << getFinalStates().size() << " states and " << getInitialStates().size()
                         << " initial states for " << getNumStates() << " entries";
  for (auto [i, state] : llvm::enumerate(getFinalStates())) {
    auto type = cast<RankedTensorType>(state.getType());
    std::string name = indexed("state", i);
    if (type.getRank() < 2 || type.getRank() > 4)
      return emitOpError() << name << " must be [N,H], [N,H,C] or [N,H,K,V] (C5), but is " << type;
    if (!getStepType(type, 2))
      return emitOpError() << name << " must have static channels from 1 to " << kMaxChannels
                           << " (C3), but is " << type;
    std::string c0 = name + "'s first channels", c1 = name + "'s second channels";
    StringRef letters[] = {perState, "H", c0, c1};
    if (failed(shapes.check(state, name, ArrayRef<StringRef>(letters).take_front(type.getRank()),
                            "C5")))
      return failure();
    Value initial = getInitialState(i);
    if (initial && initial.getType() != type)
      return emitOpError() << name << " must have its initial state's type " << initial.getType()
                           << " (C5), but is " << type;
  }
  bool saves = !getSaves().empty() || !getSavedStates().empty();
  if (saves != getSaveEvery().has_value() ||
      (saves && (int64_t(*getSaveEvery()) < 1 || int64_t(*getSaveEvery()) > kMaxRows)))
    return emitOpError() << "must have a 'save_every' from 1 to " << kMaxRows
                         << " where states are saved or saved ones read, and none elsewhere (C9)";
  auto checkSaved = [&](Value value, StringRef name) -> LogicalResult {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() != 4 || !getStepType(type, 2))
      return emitOpError() << name << " must be [slots,H,K,V] with K and V static, from 1 to "
                           << kMaxChannels << " (C9), but is " << type;
    std::string c0 = (name + "'s first channels").str(), c1 = (name + "'s second channels").str();
    return shapes.check(value, name, {"slots", "H", c0, c1}, "C9");
  };
  for (auto [i, value] : llvm::enumerate(getSavedStates()))
    if (failed(checkSaved(value, indexed("saved state", i))))
      return failure();
  for (auto [i, value] : llvm::enumerate(getSaves()))
    if (failed(checkSaved(value, indexed("save", i))))
      return failure();
  return success();
}

/// Checks the walked sizes, [H'] or [N,H'], of parameter `i` (C4) against those
/// that verify() has found to agree.
static LogicalResult verifyWalkedSizes(ScanOp op, size_t i, int64_t walked) {
  ShapeCheck shapes(op);
  auto bindDim = [&](StringRef letter, Value value, unsigned dim, int64_t less, StringRef from) {
    int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim);
    shapes.bind(letter, ShapedType::isDynamic(size) ? size : size - less, from);
  };
  bindDim("H", op.getSequences().front(), 2, 0, "'sequence 0'");
  if (Value cu = op.getCuSeqlens())
    bindDim("N", cu, 0, 1, "'cu_seqlens'");
  else
    bindDim("N", op.getSequences().front(), 0, 0, "the batch");
  for (auto [s, state] : llvm::enumerate(op.getFinalStates())) {
    if (!op.getSegments())
      bindDim("N", state, 0, 0, "'" + indexed("state", s) + "'");
    bindDim("H", state, 1, 0, "'" + indexed("state", s) + "'");
  }

  Value parameter = op.getParameters()[i];
  SmallVector<std::string> channels;
  for (int64_t c = walked, rank = cast<RankedTensorType>(parameter.getType()).getRank(); c < rank;
       ++c)
    channels.push_back("C" + std::to_string(c - walked));
  SmallVector<StringRef> letters;
  if (walked == 2)
    letters.push_back("N");
  if (walked >= 1)
    letters.push_back("H'");
  llvm::append_range(letters, channels);
  if (failed(shapes.check(parameter, indexed("parameter", i), letters, "C4")))
    return failure();
  int64_t h = shapes.size("H"), own = shapes.size("H'");
  if (!ShapedType::isDynamic(h) && !ShapedType::isDynamic(own) && (own == 0 || h % own != 0))
    return op.emitOpError() << "parameter " << i << "'s head count must divide sequence 0's (C4), "
                            << "but they are " << own << " and " << h;
  return success();
}

LogicalResult ScanOp::verifyRegions() {
  Block &step = getStep();
  size_t expected = getSequences().size() + getQueries().size() + getParameters().size() +
                    getSavedStates().size() + getNumStates();
  if (step.getNumArguments() != expected)
    return emitOpError()
           << "the step must have " << expected
           << " arguments, one per sequence, query, parameter, saved state and state (C8), but has "
           << step.getNumArguments();
  auto checkArg = [&](StringRef what, size_t i, Type found, Type wanted) -> LogicalResult {
    if (found == wanted)
      return success();
    return emitOpError() << "the step's " << what << " " << i << " must be " << wanted
                         << " (C8), but is " << found;
  };
  for (auto [i, arg, sequence] : llvm::enumerate(getSequenceArgs(), getSequences()))
    if (failed(checkArg("sequence", i, arg.getType(),
                        getStepType(cast<RankedTensorType>(sequence.getType()), 3))))
      return failure();
  for (auto [i, arg, query] : llvm::enumerate(getQueryArgs(), getQueries()))
    if (failed(checkArg("query", i, arg.getType(),
                        getStepType(cast<RankedTensorType>(query.getType()), 3))))
      return failure();
  for (auto [i, arg, saved] : llvm::enumerate(getSavedArgs(), getSavedStates()))
    if (failed(checkArg("saved state", i, arg.getType(),
                        getStepType(cast<RankedTensorType>(saved.getType()), 2))))
      return failure();
  for (auto [i, arg] : llvm::enumerate(getSavedArgs()))
    for (OpOperand &use : arg.getUses())
      if (auto checkpoint = dyn_cast<CheckpointOp>(use.getOwner());
          !checkpoint || &use != &checkpoint.getSavedMutable())
        return use.getOwner()->emitOpError()
               << "uses saved state " << i
               << ", which only 'ejk.checkpoint' may, after 'with' (C9)";
  for (auto [i, arg, state] : llvm::enumerate(getStateArgs(), getFinalStates()))
    if (failed(checkArg("state", i, arg.getType(),
                        getStepType(cast<RankedTensorType>(state.getType()), 2))))
      return failure();
  for (auto [i, arg, parameter] : llvm::enumerate(getParameterArgs(), getParameters())) {
    auto tensor = cast<RankedTensorType>(parameter.getType());
    auto vector = dyn_cast<VectorType>(arg.getType());
    ArrayRef<int64_t> shape = vector ? vector.getShape() : ArrayRef<int64_t>();
    int64_t extra = tensor.getRank() - int64_t(shape.size());
    if (extra < 0 || extra > 2 || tensor.getShape().drop_front(extra) != shape ||
        getElementTypeOrSelf(arg.getType()) != tensor.getElementType())
      return emitOpError() << "parameter " << i << " must be its step value's type "
                           << arg.getType() << " preceded by nothing, [H'] or [N,H'] (C4), but is "
                           << tensor;
    if (failed(verifyWalkedSizes(*this, i, extra)))
      return failure();
  }
  auto yield = dyn_cast<YieldOp>(step.getTerminator());
  if (!yield)
    return emitOpError("the step must end with 'ejk.yield' (C8)");
  if (yield.getStates().size() != getNumStates() ||
      yield.getOutputs().size() != getOutputs().size() ||
      yield.getSaves().size() != getSaves().size())
    return yield.emitOpError() << "must yield " << getNumStates() << " states, "
                               << getOutputs().size() << " outputs and " << getSaves().size()
                               << " saves (C8), but yields " << yield.getStates().size() << ", "
                               << yield.getOutputs().size() << " and " << yield.getSaves().size();
  for (auto [i, value, arg] : llvm::enumerate(yield.getStates(), getStateArgs()))
    if (value.getType() != arg.getType())
      return yield.emitOpError() << "state " << i << " must be " << arg.getType()
                                 << " (C8), but is " << value.getType();
  for (auto [i, value, output] : llvm::enumerate(yield.getOutputs(), getOutputs())) {
    Type wanted = getStepType(cast<RankedTensorType>(output.getType()), 3);
    if (value.getType() != wanted)
      return yield.emitOpError() << "output " << i << " must be " << wanted << " (C8), but is "
                                 << value.getType();
  }
  for (auto [i, value, save] : llvm::enumerate(yield.getSaves(), getSaves())) {
    Type wanted = getStepType(
        cast<RankedTensorType>(save.getType()).clone(Float32Type::get(getContext())), 2);
    if (value.getType() != wanted)
      return yield.emitOpError() << "save " << i << " must be " << wanted << " (C8), but is "
                                 << value.getType();
  }
  if (failed(verifyStepOps(*this)))
    return failure();
  return getQueries().empty() ? success() : verifyQueryValues(*this);
}
