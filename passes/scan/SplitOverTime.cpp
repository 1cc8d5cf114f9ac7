//===- SplitOverTime.cpp - segments of a sequence side by side ------------===//
//
// The state that a segment starts from is linear in the one that the segment before it starts
// from: exp(Σ gates) · that, plus what the segment makes from zero. Both come of a scan of the
// segments; a scan over them combines the states, in which each row of K×V is a head of V
// channels. Where steps correct the state, a K×K matrix takes the place of exp(Σ gates)
// (SegmentTransitions.h), and `ejk.combine_segments` combines.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Passes.h"
#include "passes/scan/DividedScans.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SegmentViews.h"
#include <numeric>

namespace ejk {
#define GEN_PASS_DEF_SPLITOVERTIME
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// What a segment's start needs of one state.
struct SplitState {
  enum class Kind {
    linear,      // the state that the segment before ends with
    corrected,   // the same; the step adds what it reads of the state
    known,       // the same; it is a state of a scan that was divided before
    accumulated, // nothing: it is unused in the step, and the segments' sums are added up
    restarted    // nothing: it starts anew at each saved state
  } kind;
  /// Of linear ones: the log gates along each axis.
  SmallVector<Value> gates[3];
  DividedState known;

  /// Whether segments are scanned from zero for it.
  bool needsTotals() const { return kind == Kind::linear || kind == Kind::corrected; }
};

class TimeSplitter {
public:
  TimeSplitter(ScanOp scan, SegmentsAttr segments, ArrayRef<DividedScan> before,
               int64_t trailingRows, bool remarks)
      : scan(scan), segments(segments), before(before), trailingRows(trailingRows),
        remarks(remarks), loc(scan.getLoc()),
        b(scan), views(b, scan, segments) {}

  /// Says at the op in the way why the scan cannot be split.
  LogicalResult analyze();
  SmallVector<Value> nextsOfTotals();
  /// Whether no segment's start depends on the one before.
  bool areApart() const {
    return llvm::none_of(states, [](const SplitState &state) { return state.needsTotals(); });
  }
  DividedScan apply();

private:
  LogicalResult decline(Operation *op, const Twine &why) {
    if (remarks)
      op->emitRemark("not split over time: ") << why;
    return failure();
  }
  FailureOr<SplitState> followMatrix(Value arg, Value next);
  LogicalResult checkCorrections(Value arg, Value next);
  FailureOr<SplitState> followSum(unsigned number);
  bool isStateful(Value value) const { return stateful.contains(value); }

  /// What each segment makes from zero: per state that needs it, its final state and the sums of its
  /// gates along each axis.
  struct Totals {
    Value state, gates[3];
  };
  SmallVector<Totals> scanFromZero();
  /// The states of each segment's start and the final state, from h0.
  std::pair<Value, Value> combine(const Totals &totals, Value initial, RankedTensorType type);
  /// The same of corrected state `number`.
  std::pair<Value, Value> combineCorrected(unsigned number, Value totals);
  SegmentTransitions transitionsOf(unsigned number) {
    return {scan, scan.getStateArgs()[number], scan.getYield().getStates()[number], corrections};
  }
  /// Finds the segments whose totals need their last rows alone, where that is wanted and one state that is
  /// corrected has totals.
  void findTrailingRows();
  ScanOp scanFromStarts(ArrayRef<Value> starts);

  ScanOp scan;
  SegmentsAttr segments;
  ArrayRef<DividedScan> before;
  int64_t trailingRows;
  bool remarks;
  Location loc;
  OpBuilder b;
  SegmentViews views;
  Corrections corrections;
  /// The op that has no such parts, and why.
  Operation *uncorrected = nullptr;
  std::string whyUncorrected;
  SmallVector<SplitState> states;
  llvm::DenseSet<Value> stateful;
  TrailingRows trailing;
};
} // namespace

//===----------------------------------------------------------------------===//
// What the states are
//===----------------------------------------------------------------------===//

FailureOr<SplitState> TimeSplitter::followMatrix(Value arg, Value next) {
  SplitState state{SplitState::Kind::linear, {}, {}};
  for (Value value = next; value != arg;) {
    Operation *op = value.getDefiningOp();
    auto fromState = [&](Value operand) { return isStateful(operand); };
    if (auto decay = dyn_cast_or_null<DecayOp>(op)) {
      if (fromState(decay.getGate()))
        return decline(op, "its gate depends on a state");
      state.gates[unsigned(decay.getAxis())].push_back(decay.getGate());
    } else if (auto add = dyn_cast_or_null<OuterAddOp>(op)) {
      if (fromState(add.getKey()) || fromState(add.getValue())) {
        if (failed(checkCorrections(arg, next)))
          return failure();
        state.kind = SplitState::Kind::corrected;
      }
    } else {
      return decline(op ? op : scan.getOperation(),
                     "a K×V state's next value must be made of it by 'ejk.decay' and "
                     "'ejk.outer_add'");
    }
    value = op->getOperand(0);
  }
  if (state.kind == SplitState::Kind::corrected)
    for (SmallVector<Value> &gates : state.gates)
      gates.clear(); // the transitions have them
  return state;
}

/// Whether what is added on the way from `arg` to `next` corrects that state, and no other.
LogicalResult TimeSplitter::checkCorrections(Value arg, Value next) {
  if (uncorrected)
    return decline(uncorrected, whyUncorrected);
  std::string why;
  Operation *obstacle = SegmentTransitions(scan, arg, next, corrections)
                            .findObstacle([&](Value v) { return isStateful(v); }, why);
  return obstacle ? decline(obstacle, why) : success();
}

FailureOr<SplitState> TimeSplitter::followSum(unsigned number) {
  Value arg = scan.getStateArgs()[number], value = scan.getYield().getStates()[number];
  bool isAlone = true, hasOwnTerms = true, isRestarted = false;
  auto refuse = [&] {
    return decline(scan, "state " + Twine(number) + ", a number or vector, must be a sum of itself "
                             "and terms that do not depend on it");
  };
  // What depends on the state in this step.
  llvm::DenseSet<Value> own = {arg};
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return own.contains(v); }))
      own.insert_range(op.getResults());
  while (value != arg) {
    Operation *op = value.getDefiningOp();
    if (!op || !own.contains(value))
      return refuse();
    if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      if (isRestarted || own.contains(checkpoint.getState()))
        return refuse();
      isRestarted = true;
      value = checkpoint.getVector();
      isAlone = true; // later values may be used
      continue;
    }
    isAlone &= value.hasOneUse();
    if (!isa<arith::AddFOp, arith::SubFOp>(op))
      return refuse();
    bool onRight = own.contains(op->getOperand(1));
    if (own.contains(op->getOperand(0)) == onRight || (isa<arith::SubFOp>(op) && onRight))
      return refuse();
    hasOwnTerms &= !isStateful(op->getOperand(!onRight));
    value = op->getOperand(onRight);
  }
  isAlone &= arg.hasOneUse();
  if (isRestarted) {
    if (!isAlone || !scan.getFinalStates()[number].use_empty())
      return decline(scan, "state " + Twine(number) +
                               " starts anew at saved states, and is used before or afterwards");
    return SplitState{SplitState::Kind::restarted, {}, {}};
  }
  if (isAlone)
    return SplitState{SplitState::Kind::accumulated, {}, {}};
  if (hasOwnTerms)
    return SplitState{SplitState::Kind::linear, {}, {}};
  return decline(scan, "state " + Twine(number) + " sums up what is read of another, and is read");
}

LogicalResult TimeSplitter::analyze() {
  uncorrected = corrections.find(scan, whyUncorrected);
  stateful.insert_range(scan.getStateArgs());
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return isStateful(v); }))
      stateful.insert_range(op.getResults());
  for (auto [i, arg, next] :
       llvm::enumerate(scan.getStateArgs(), scan.getYield().getStates())) {
    if (std::optional<DividedState> known = findDivided(scan, i, segments, before)) {
      states.push_back({SplitState::Kind::known, {}, *known});
      continue;
    }
    FailureOr<SplitState> state = isMatrix(arg) ? followMatrix(arg, next) : followSum(i);
    if (failed(state))
      return failure();
    states.push_back(*state);
  }
  for (Value value : computedFrom(nextsOfTotals()))
    if (auto checkpoint = value.getDefiningOp<CheckpointOp>())
      return decline(checkpoint, "a state takes what is read of saved states");
  return success();
}

//===----------------------------------------------------------------------===//
// The scans
//===----------------------------------------------------------------------===//

/// The next values of the states that a scan of each segment starts from zero.
SmallVector<Value> TimeSplitter::nextsOfTotals() {
  SmallVector<Value> nexts;
  for (auto [state, next] : llvm::zip(states, scan.getYield().getStates()))
    if (state.needsTotals())
      nexts.push_back(next);
  return nexts;
}

SmallVector<TimeSplitter::Totals> TimeSplitter::scanFromZero() {
  // What the linear states' next values and gates are made of.
  llvm::SetVector<Value> needed = computedFrom(nextsOfTotals());
  YieldOp yield = scan.getYield();

  // Whichever has the heads, so that no other is passed for them alone.
  ScanBuilder builder(b, scan, /*turned=*/false, sequenceWithHeads(scan, needed));
  builder.divide(segments);
  builder.leaveOut(trailing);
  IRMapping map;
  for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    if (needed.contains(arg))
      map.map(arg, builder.addSequence(tensor));
  for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
    if (needed.contains(arg))
      map.map(arg, builder.addParameter(tensor, arg.getType()));
  for (auto [arg, state] : llvm::zip(scan.getStateArgs(), states))
    if (state.needsTotals())
      map.map(arg, builder.addState(builder.stateType(arg.getType()), Value()));
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getResults(), [&](Value v) { return needed.contains(v); }))
      builder.b.clone(op, map);

  struct Arguments {
    Value state, gates[3];
  };
  SmallVector<Arguments> arguments;
  for (auto [arg, next, state] : llvm::zip(scan.getStateArgs(), yield.getStates(), states)) {
    Arguments &own = arguments.emplace_back();
    if (!state.needsTotals())
      continue;
    own.state = map.lookup(arg);
    builder.setNext(own.state, map.lookup(next));
    for (auto [gates, sum] : llvm::zip(state.gates, own.gates)) {
      if (gates.empty())
        continue;
      sum = builder.addState(builder.stateType(gates.front().getType()), Value());
      Value total = sum;
      for (Value gate : gates)
        total = arith::AddFOp::create(builder.b, loc, total, map.lookup(gate));
      builder.setNext(sum, total);
    }
  }
  builder.finish();
  SmallVector<Totals> totals;
  for (const Arguments &own : arguments) {
    Totals &made = totals.emplace_back();
    if (own.state)
      made.state = builder.finalState(own.state);
    for (auto [sum, gate] : llvm::zip(own.gates, made.gates))
      if (sum)
        gate = builder.finalState(sum);
  }
  return totals;
}

std::pair<Value, Value> TimeSplitter::combine(const Totals &totals, Value initial,
                                              RankedTensorType type) {
  bool isMatrix = type.getRank() == 4;
  SmallVector<Value> sequences = {views.bySegment(totals.state, isMatrix)};
  for (unsigned axis : {0, 1, 2})
    if (totals.gates[axis]) // each key channel's gate is that of a head
      sequences.push_back(views.bySegment(totals.gates[axis], Axis(axis) == Axis::key));
  if (initial && isMatrix)
    initial = views.mergeKeys(initial);
  auto flat = isMatrix ? views.mergedKeysType(type) : type;
  ScanOp combined =
      views.scanSegments(sequences, sequences.front().getType(), flat, initial);
  OpBuilder step = OpBuilder::atBlockEnd(&combined.getStep());
  Value state = combined.getStateArgs().front(), total;
  ValueRange args = combined.getSequenceArgs();
  for (Value gate : args.drop_front()) {
    if (total && gate.getType() != total.getType()) // the number comes first
      total = vector::BroadcastOp::create(step, loc, gate.getType(), total);
    total = total ? arith::AddFOp::create(step, loc, total, gate).getResult() : gate;
  }
  Value kept = state;
  if (total) {
    if (total.getType() != state.getType())
      total = vector::BroadcastOp::create(step, loc, state.getType(), total);
    kept = arith::MulFOp::create(step, loc, math::ExpOp::create(step, loc, total), state);
    // A gate of -inf forgets whatever the state is.
    auto constant = [&](double number) -> Value {
      return arith::ConstantOp::create(
          step, loc,
          DenseElementsAttr::get(cast<ShapedType>(state.getType()), float(number)));
    };
    Value forgets = arith::CmpFOp::create(step, loc, arith::CmpFPredicate::OEQ, total,
                                          constant(-std::numeric_limits<float>::infinity()));
    kept = arith::SelectOp::create(step, loc, forgets, constant(0), kept);
  }
  Value next = arith::AddFOp::create(step, loc, kept, args.front());
  YieldOp::create(step, loc, next, state);
  Value starts = views.fromSegments(combined.getOutputs().front(), views.perSegment(type));
  Value final = combined.getFinalStates().front();
  return {starts, isMatrix ? views.separateKeys(final, type) : final};
}

std::pair<Value, Value> TimeSplitter::combineCorrected(unsigned number, Value totals) {
  auto type = cast<RankedTensorType>(scan.getFinalStates()[number].getType());
  SegmentTransitions transitions = transitionsOf(number);
  Value matrices =
      transitions.scanTransitions(b, segments, transitions.makeIdentities(b, views), trailing);
  auto combined = CombineSegmentsOp::create(
      b, loc, views.perSegment(type), type, totals, matrices, trailing.remembered,
      scan.getInitialState(number), views.offsets(), scan.getSequences().front(), scan.getReverse());
  return {combined.getStarts(), combined.getFinalState()};
}

void TimeSplitter::findTrailingRows() {
  auto needsTotals = [](const SplitState &state) { return state.needsTotals(); };
  auto only = llvm::find_if(states, needsTotals);
  if (!trailingRows || llvm::count_if(states, needsTotals) != 1 ||
      only->kind != SplitState::Kind::corrected)
    return;
  SegmentTransitions transitions = transitionsOf(only - states.begin());
  // Of all segments: the kernel of these is that of all rows.
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value none = linalg::FillOp::create(b, loc, zero, views.emptyOfSegments({})).getResult(0);
  Value last = transitions.scanTransitions(b, segments, transitions.makeIdentities(b, views),
                                           {trailingRows, none});
  trailing = {trailingRows, transitions.measure(b, last)};
}

ScanOp TimeSplitter::scanFromStarts(ArrayRef<Value> starts) {
  SmallVector<Type> types, parameterTypes(scan.getParameterArgs().getTypes());
  for (Type type : scan.getFinalStates().getTypes())
    types.push_back(segments.isWhole() ? type : views.perSegment(cast<RankedTensorType>(type)));
  auto made = ScanOp::create(b, loc, scan.getOutputs().getTypes(), types, scan.getSequences(),
                             scan.getParameters(), parameterTypes, starts, scan.getCuSeqlens(),
                             scan.getReverse(), scan.getSaveEvery().value_or(0),
                             scan.getSavedStates(), scan.getSaves().getTypes(), segments);
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  made.getBody().takeBody(scan.getBody());
  return made;
}

DividedScan TimeSplitter::apply() {
  using Kind = SplitState::Kind;
  SmallVector<Totals> totals(states.size());
  bool isWhole = segments.isWhole();
  if (!isWhole && !areApart()) {
    findTrailingRows();
    totals = scanFromZero();
  }
  SmallVector<Value> starts;
  SmallVector<DividedState> divided;
  for (auto [i, state] : llvm::enumerate(states)) {
    DividedState &own = divided.emplace_back(state.known);
    own.initial = scan.getInitialState(i);
    auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
    if (isWhole && state.kind != Kind::known)
      own.starts = own.initial || !state.needsTotals() ? own.initial : views.zeros(type);
    else if (state.kind == Kind::linear)
      std::tie(own.starts, own.final) = combine(totals[i], own.initial, type);
    else if (state.kind == Kind::corrected)
      std::tie(own.starts, own.final) = combineCorrected(i, totals[i].state);
    starts.push_back(own.starts);
  }
  ScanOp made = scanFromStarts(starts);
  for (auto [i, state] : llvm::enumerate(states)) {
    Value final = scan.getFinalStates()[i];
    if (isWhole && state.kind != Kind::known) {
      divided[i].final = made.getFinalStates()[i];
      final.replaceAllUsesWith(divided[i].final);
      continue;
    }
    if (state.kind == Kind::accumulated && !divided[i].initial)
      views.addUpNumbers(made.getFinalStates()[i], final);
    if (final.use_empty())
      continue;
    if (state.kind == Kind::accumulated)
      divided[i].final = views.addUp(made.getFinalStates()[i], divided[i].initial,
                               cast<RankedTensorType>(final.getType()));
    final.replaceAllUsesWith(divided[i].final);
  }
  scan.getOutputs().replaceAllUsesWith(made.getOutputs());
  scan.getSaves().replaceAllUsesWith(made.getSaves());
  scan.erase();
  return {made, divided};
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct SplitOverTimePass : ejk::impl::SplitOverTimeBase<SplitOverTimePass> {
  using SplitOverTimeBase::SplitOverTimeBase;

  /// How `scan` is divided: saved states are those of a segment's own rows. Null where a segment
  /// would have more than `kMaxRows`.
  SegmentsAttr segmentsOf(ScanOp scan) {
    if (whole)
      return SegmentsAttr::whole(&getContext());
    int64_t every = scan.getSaveEvery().value_or(1);
    bool isPacked = bool(scan.getCuSeqlens());
    int64_t unit = isPacked ? every : std::lcm(int64_t(least), every);
    int64_t rows = unit * llvm::divideCeil(isPacked ? int64_t(packed) : int64_t(most), unit);
    if (rows > kMaxRows)
      return {};
    return SegmentsAttr::get(&getContext(), isPacked ? rows : unit, rows,
                             isPacked ? 1 : int64_t(count));
  }

  void runOnOperation() override {
    auto isOutside = [](int64_t number) { return number < 1 || number > kMaxRows; };
    if (isOutside(least) || isOutside(most) || isOutside(count) || isOutside(packed) ||
        isOutside(trailing)) {
      getOperation()->emitError("'least', 'most', 'count', 'packed' and 'trailing' must be from 1 to ")
          << kMaxRows << ", but are " << int64_t(least) << ", " << int64_t(most) << ", "
          << int64_t(count) << ", " << int64_t(packed) << " and " << int64_t(trailing);
      return signalPassFailure();
    }
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    SmallVector<DividedScan> divided;
    for (ScanOp scan : scans) {
      // One without states has nothing to combine. Whole sequences are for chunks, of K×V states.
      bool hasMatrices = llvm::any_of(scan.getStateArgs(), isMatrix);
      if (scan.getSegments() || (withoutMatrices ? hasMatrices
                                 : whole         ? !hasMatrices
                                                 : scan.getNumStates() == 0))
        continue;
      if (!scan.getQueries().empty()) {
        if (remarks)
          scan.emitRemark("not split over time: it has queries; run --ejk-expand-queries first");
        ++numDeclined;
        continue;
      }
      SegmentsAttr segments = segmentsOf(scan);
      if (!segments) {
        if (remarks)
          scan.emitRemark("not split over time: a segment that 'save_every' divides would have "
                          "more than ")
              << kMaxRows << " rows";
        ++numDeclined;
        continue;
      }
      int64_t rows = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
      if (!whole && !ShapedType::isDynamic(rows) && rows <= segments.rowsOf(rows))
        continue;
      TimeSplitter splitter(scan, segments, divided, mayForget(scan, forget) ? int64_t(trailing) : 0,
                            remarks);
      if (failed(splitter.analyze()) || (withoutMatrices && !splitter.areApart())) {
        ++numDeclined;
        continue;
      }
      divided.push_back(splitter.apply());
      ++numSplit;
    }
  }
};
} // namespace
