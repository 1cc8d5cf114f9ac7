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
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentStates.h"
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
class TimeSplitter {
public:
  TimeSplitter(ScanOp scan, SegmentsAttr segments, SegmentStates &found, int64_t trailingRows)
      : scan(scan), segments(segments), trailingRows(trailingRows), loc(scan.getLoc()), b(scan),
        views(b, scan, segments), found(found), states(found.states()) {}

  DividedScan apply();

private:
  /// What each segment makes from zero: per state that needs it, its final state and the sums of its
  /// gates along each axis.
  struct Totals {
    Value state, gates[3];
  };
  SmallVector<Totals> scanFromZero();
  /// Of halves: what the scan makes of the one that it comes to first, from h0.
  SmallVector<Totals> scanFirst() {
    return scanTotals(segments.onlyOf(firstOfTwo()), /*fromZero=*/false);
  }
  SmallVector<Totals> scanTotals(SegmentsAttr scanned, bool fromZero);
  int64_t firstOfTwo() { return scan.getReverse() ? 1 : 0; }
  /// The states of each segment's start and the final state, from h0.
  std::pair<Value, Value> combine(const Totals &totals, Value initial, RankedTensorType type);
  /// The same of corrected state `number`.
  std::pair<Value, Value> combineCorrected(unsigned number, Value totals);
  SegmentTransitions transitionsOf(unsigned number) {
    return {scan, scan.getStateArgs()[number], scan.getYield().getStates()[number],
            found.corrections};
  }
  /// Finds the segments whose totals need their last rows alone, where that is wanted and one state that is
  /// corrected has totals.
  void findTrailingRows();

  ScanOp scan;
  SegmentsAttr segments;
  int64_t trailingRows;
  Location loc;
  OpBuilder b;
  SegmentViews views;
  SegmentStates &found;
  ArrayRef<SplitState> states;
  TrailingRows trailing;
};
} // namespace

//===----------------------------------------------------------------------===//
// The scans
//===----------------------------------------------------------------------===//

SmallVector<TimeSplitter::Totals> TimeSplitter::scanFromZero() {
  return scanTotals(segments, /*fromZero=*/true);
}

SmallVector<TimeSplitter::Totals> TimeSplitter::scanTotals(SegmentsAttr scanned, bool fromZero) {
  // What the linear states' next values and gates are made of.
  llvm::SetVector<Value> needed = computedFrom(found.nextsOfTotals());
  YieldOp yield = scan.getYield();

  // Whichever has the heads, so that no other is passed for them alone.
  ScanBuilder builder(b, scan, /*turned=*/false, sequenceWithHeads(scan, needed));
  builder.divide(scanned);
  builder.leaveOut(trailing);
  IRMapping map;
  for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    if (needed.contains(arg))
      map.map(arg, builder.addSequence(tensor));
  for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
    if (needed.contains(arg))
      map.map(arg, builder.addParameter(tensor, arg.getType()));
  // Of corrected ones starts are given, if as zeros: one kernel then scans all segments and the
  // first.
  for (auto [i, arg, state] : llvm::enumerate(scan.getStateArgs(), states)) {
    if (!state.needsTotals())
      continue;
    RankedTensorType type = builder.stateType(arg.getType());
    Value start = fromZero ? Value() : scan.getInitialState(i);
    if (!start && state.kind == SplitState::Kind::corrected)
      start = SegmentViews(b, scan, scanned).zeros(type.getShape().drop_front(2));
    map.map(arg, builder.addState(type, start));
  }
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
      if (gates.empty() || !fromZero)
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
  Value none = views.zeros({});
  Value last = transitions.scanTransitions(b, segments, transitions.makeIdentities(b, views),
                                           {trailingRows, none});
  trailing = {trailingRows, transitions.measure(b, last)};
}

DividedScan TimeSplitter::apply() {
  using Kind = SplitState::Kind;
  SmallVector<Totals> totals(states.size());
  bool isWhole = segments.isWhole(), inHalves = segments.getExact();
  if (inHalves && !found.areApart()) {
    totals = scanFirst();
  } else if (!isWhole && !found.areApart()) {
    findTrailingRows();
    totals = scanFromZero();
  }
  SmallVector<Value> starts;
  SmallVector<DividedState> divided;
  for (auto [i, state] : llvm::enumerate(states)) {
    DividedState &own = divided.emplace_back(state.known.state);
    own.initial = scan.getInitialState(i);
    auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
    if (isWhole && state.kind != Kind::known)
      own.starts = own.initial || !state.needsTotals() ? own.initial
                                                       : views.zeros(type.getShape().drop_front(2));
    else if (inHalves && state.needsTotals())
      own.starts = views.startsOfHalves(own.initial, totals[i].state, type, firstOfTwo());
    else if (state.kind == Kind::linear)
      std::tie(own.starts, own.final) = combine(totals[i], own.initial, type);
    else if (state.kind == Kind::corrected)
      std::tie(own.starts, own.final) = combineCorrected(i, totals[i].state);
    starts.push_back(own.starts);
  }
  ScanOp made = views.divideScan(starts);
  for (auto [i, state] : llvm::enumerate(states)) {
    Value final = scan.getFinalStates()[i];
    auto type = cast<RankedTensorType>(final.getType());
    if (isWhole && state.kind != Kind::known) {
      divided[i].final = made.getFinalStates()[i];
      final.replaceAllUsesWith(divided[i].final);
      continue;
    }
    if (inHalves && state.needsTotals())
      divided[i].final = views.endsOfHalves(made.getFinalStates()[i], type, 1 - firstOfTwo());
    if (state.kind == Kind::accumulated && !divided[i].initial)
      views.addUpNumbers(made.getFinalStates()[i], final);
    if (final.use_empty())
      continue;
    if (state.kind == Kind::accumulated)
      divided[i].final = views.addUp(made.getFinalStates()[i], divided[i].initial, type);
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
    if (halves)
      return SegmentsAttr::exactly(&getContext(), /*count=*/2, unit);
    return SegmentsAttr::get(&getContext(), isPacked ? rows : unit, rows,
                             isPacked ? 1 : int64_t(count), /*exact=*/false, /*only=*/{});
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
      if (halves && scan.getCuSeqlens()) {
        if (remarks)
          scan.emitRemark("not split in halves: its sequences are packed");
        ++numDeclined;
        continue;
      }
      int64_t rows = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
      if (!whole && !ShapedType::isDynamic(rows) && rows <= segments.rowsOf(rows))
        continue;
      SegmentStates found(scan, segments, divided, remarks);
      if (failed(found.analyze()) || (withoutMatrices && !found.areApart())) {
        ++numDeclined;
        continue;
      }
      int64_t trailingRows = mayForget(scan, forget) ? int64_t(trailing) : 0;
      divided.push_back(TimeSplitter(scan, segments, found, trailingRows).apply());
      ++numSplit;
    }
  }
};
} // namespace
