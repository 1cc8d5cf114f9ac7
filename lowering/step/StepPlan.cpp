//===- StepPlan.cpp - distribution of a scan over threads, step by step ----===//
#include "lowering/step/StepPlan.h"
#include "lowering/step/StepSizes.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ejk;

/// The most state elements that a thread of a whole state has: more would not fit its registers.
static constexpr unsigned kMostElementsOfThread = 64;

/// Why a kernel without the whole state cannot do so, and the remedy.
static constexpr const char *kColumnsApart =
    "a CPU's kernel computes the columns of a state apart, and --ejk-split-reads and "
    "--ejk-split-sums found no two scans for it: a GPU's kernel has the whole state, and the "
    "interpreter";

static unsigned rankOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getRank() : 0;
}

bool ejk::hasChannels(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector && vector.getNumElements() > 1;
}

std::optional<unsigned> StepPlan::find(Value value, Layout layout, bool exponential) const {
  for (auto [i, crossing] : llvm::enumerate(crossings))
    if (crossing.value == value && crossing.layout == layout && crossing.exponential == exponential)
      return i;
  return std::nullopt;
}

Layout StepPlan::layoutOfSummed(Value vector) const {
  if (auto known = layouts.find(vector); known != layouts.end())
    return known->second;
  return cast<VectorType>(vector.getType()).getDimSize(0) == rows ? Layout::row : Layout::column;
}

namespace {
/// Builds a plan in three steps: sizes and axes, layouts and crossings, tile sizes.
class Planner {
public:
  Planner(ScanOp scan, bool singleStep, llvm::DenseSet<Value> aside = {})
      : scan(scan), aside(std::move(aside)) {
    plan.scan = scan;
    plan.singleStep = singleStep;
    plan.queryValues = this->scan.findQueryValues();
  }

  /// `mayBeWhole`: the kernel may have the whole state in one block.
  FailureOr<StepPlan> analyze(bool mayBeWhole) {
    this->mayBeWhole = mayBeWhole;
    if (mayBeWhole && needsWholeState())
      takeWholeState();
    if (failed(chooseAxes()) || failed(checkOps()))
      return failure();
    findStateful();
    if (failed(assignLayouts()) || failed(collectCrossings()))
      return failure();
    return plan;
  }

  FailureOr<StepPlan> run() {
    if (failed(analyze(/*mayBeWhole=*/true)))
      return failure();
    StepSizes sizes(plan);
    sizes.chooseTile();
    if (plan.wholeState && failed(checkWholeState()))
      return failure();
    if (plan.wholeState && !plan.queryValues.empty())
      return scan.emitError("sums along both axes of a state that several queries share; run "
                            "--ejk-expand-queries first"),
             failure();
    sizes.chooseChunk();
    return plan;
  }

private:
  /// Whether a step sums along both axes, or sums what depends on a state.
  bool needsWholeState() {
    std::optional<Axis> axis = getReadAxis(scan);
    return !axis || llvm::any_of(scan.getStep(), [&](Operation &op) {
      auto checkpoint = dyn_cast<CheckpointOp>(op);
      return (checkpoint && checkpoint.getAxis() == Axis::head) ||
             (isReduction(&op) && !isOnlyChannel(&op) && !isReductionAlongReads(scan, &op));
    });
  }

  void takeWholeState() {
    plan.wholeState = true;
    plan.singleStep = false;
  }

  LogicalResult checkWholeState() {
    unsigned elements = plan.rowsPerThread * plan.colsPerThread;
    if (plan.columnBlocks == 1 && elements <= kMostElementsOfThread)
      return success();
    return scan.emitError() << "its steps sum along both axes of a state in turn, so that one "
                               "thread block has the whole state; one of "
                            << plan.rows << " by " << plan.columns
                            << " does not fit its registers";
  }

  LogicalResult chooseAxes() {
    std::optional<VectorType> matrix;
    // A scan of rows may read states that another one saved, and have none.
    SmallVector<Value> states(scan.getStateArgs());
    llvm::append_range(states, scan.getSavedArgs());
    for (Value state : states) {
      auto type = dyn_cast<VectorType>(state.getType());
      if (!type || type.getRank() != 2)
        continue;
      if (matrix && *matrix != type)
        return scan.emitError() << "the step-by-step schedule needs K×V states of one size, but "
                                   "this scan has "
                                << *matrix << " and " << type;
      matrix = type;
    }
    std::optional<Axis> readAxis = getReadAxis(scan);
    if (plan.wholeState)
      readAxis = Axis::key;
    for (ReadOp read : scan.getStep().getOps<ReadOp>())
      if (!plan.wholeState && !aside.contains(read.getResult()) &&
          read.getAxis() != readAxis.value_or(Axis::key))
        return read.emitError("reads along one axis of a state, and others along the other; ")
               << kColumnsApart;
    if (!readAxis)
      return scan.emitError("sums saved states along both axes; ") << kColumnsApart;
    plan.rowAxis = *readAxis;
    for (Operation &op : scan.getStep()) {
      bool reduces = isReduction(&op) && !isOnlyChannel(&op);
      plan.numReads += reduces || isa<ReadOp, CheckpointOp>(op);
      if (reduces && !plan.wholeState && !isReductionAlongReads(scan, &op))
        return op.emitError("sums what depends on a state, or not along the axis of the reads; ")
               << kColumnsApart;
      if (auto rotate = dyn_cast<RotateHalfOp>(op);
          rotate && dependsOnThreads(scan, rotate.getVector()))
        return op.emitError("rotates what depends on a state or a sum, and a later state or sum "
                            "depends on it, so that --ejk-split-rotations finds no two scans for "
                            "it: no kernel does that; rotate rows on their way into the state, or "
                            "outputs");
    }
    if (matrix) {
      bool byKey = plan.rowAxis == Axis::key;
      plan.rows = matrix->getDimSize(byKey ? 0 : 1);
      plan.columns = matrix->getDimSize(byKey ? 1 : 0);
      return success();
    }
    // Without a matrix, the step's longest vectors are columns and shorter ones rows.
    SmallVector<int64_t> lengths;
    for (Operation &op : scan.getStep())
      for (Type type : op.getOperandTypes())
        if (rankOf(type) == 1)
          lengths.push_back(cast<VectorType>(type).getDimSize(0));
    for (int64_t length : lengths)
      plan.columns = std::max(plan.columns, length);
    for (int64_t length : lengths)
      if (length != plan.columns)
        plan.rows = length;
    return success();
  }

  LogicalResult checkOps() {
    for (Operation &op : scan.getStep()) {
      if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
        if (rankOf(broadcast.getSource().getType()))
          return op.emitError("a step broadcasts only one number to all channels");
        continue;
      }
      if (isa<YieldOp, DecayOp, OuterAddOp, ReadOp, CheckpointOp, SumOp, MaxOp, CancellingPairOp,
              RotateHalfOp, StepIndexOp, GateGradientOp, HeadIndexOp, NumHeadsOp>(op))
        continue;
      bool known = isa_and_nonnull<arith::ArithDialect>(op.getDialect()) ||
                   (op.getDialect() && op.getDialect()->getNamespace() == "math");
      if (!known || op.getNumRegions() || op.getNumResults() != 1)
        return op.emitError() << "'" << op.getName()
                              << "' cannot be part of a step; use ejk's step ops, elementwise "
                                 "arith or math, and vector.broadcast";
      if (op.hasTrait<OpTrait::ConstantLike>() && rankOf(op.getResult(0).getType()) &&
          !isSplat(&op))
        return op.emitError("a constant in a step must be one number in every channel; pass "
                            "others as a parameter");
    }
    return success();
  }

  static bool isSplat(Operation *op) {
    DenseElementsAttr constant;
    return matchPattern(op, m_Constant(&constant)) && constant.isSplat();
  }

  void findStateful() {
    for (Value state : scan.getStateArgs())
      plan.stateful.insert(state);
    // Reductions need several threads.
    for (Operation &op : scan.getStep())
      if (isReduction(&op) && !isOnlyChannel(&op))
        plan.stateful.insert(op.getResult(0));
    // The gradient of a gate depends on the step's row in the sequence.
    scan.getBody().walk([&](GateGradientOp op) { plan.stateful.insert(op.getResult()); });
    // So does an op on a K×V value that is no state: an outer product that reads a saved state.
    auto isMatrix = [](Value value) { return rankOf(value.getType()) == 2; };
    for (Operation &op : scan.getStep().without_terminator())
      if (llvm::any_of(op.getOperands(),
                       [&](Value v) { return plan.stateful.contains(v) || isMatrix(v); }))
        plan.stateful.insert(op.getResult(0));
  }

  /// Assigns a layout to `value`; returns whether it had none.
  FailureOr<bool> assign(Operation *user, Value value, Layout layout) {
    if (rankOf(value.getType()) != 1 || !plan.stateful.contains(value))
      return false;
    auto [it, isNew] = plan.layouts.try_emplace(value, layout);
    if (!isNew && it->second != layout) {
      if (mayBeWhole) {
        takeWholeState(); // which exchanges it
        return false;
      }
      user->emitError("uses along one axis of the state a vector that lies along the other; ")
          << kColumnsApart;
      return failure();
    }
    return isNew;
  }

  /// Iterates to a fixed point: reads produce columns, step ops require the layout of their axis,
  /// elementwise ops and carried vectors have one layout throughout.
  LogicalResult assignLayouts() {
    bool changed = true;
    auto note = [&](Operation *user, Value value, Layout layout) -> LogicalResult {
      FailureOr<bool> isNew = assign(user, value, layout);
      if (failed(isNew))
        return failure();
      changed |= *isNew;
      return success();
    };
    auto spread = [&](Operation *user, ArrayRef<Value> group) -> LogicalResult {
      for (Value value : group)
        if (auto it = plan.layouts.find(value); it != plan.layouts.end()) {
          Layout layout = it->second;
          for (Value other : group)
            if (failed(note(user, other, layout)))
              return failure();
          break;
        }
      return success();
    };
    while (changed) {
      changed = false;
      for (Operation &op : scan.getStep()) {
        LogicalResult ok = success();
        if (isAside(&op))
          continue;
        if (auto decay = dyn_cast<DecayOp>(op)) {
          ok = note(&op, decay.getGate(), plan.layoutOf(decay.getAxis()));
        } else if (auto outer = dyn_cast<OuterAddOp>(op)) {
          ok = success(succeeded(note(&op, outer.getKey(), plan.layoutOf(Axis::key))) &&
                       succeeded(note(&op, outer.getValue(), plan.layoutOf(Axis::value))));
        } else if (auto read = dyn_cast<ReadOp>(op)) {
          Axis axis = read.getAxis();
          ok = success(
              succeeded(note(&op, read.getVector(), plan.layoutOf(axis))) &&
              succeeded(note(&op, read.getResult(), plan.layoutOf(StepPlan::across(axis)))));
        } else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
          if (checkpoint.getAxis() == Axis::head && !plan.wholeState)
            return op.emitError("sums a state along both axes; ") << kColumnsApart;
          Layout layout = layoutOfSum(checkpoint);
          ok = success(succeeded(note(&op, checkpoint.getVector(), layout)) &&
                       succeeded(note(&op, checkpoint.getResult(), layout)));
        } else if (isReduction(&op)) {
          continue;
        } else if (auto yield = dyn_cast<YieldOp>(op)) {
          for (auto [arg, value] : llvm::zip(scan.getStateArgs(), yield.getStates()))
            if (failed(spread(&op, {arg, value})))
              return failure();
        } else {
          SmallVector<Value> group(op.getOperands());
          group.push_back(op.getResult(0));
          ok = spread(&op, group);
        }
        if (failed(ok))
          return failure();
      }
      if (!changed)
        changed = placeFree();
    }
    auto fits = [&](Operation *user, Value value) {
      auto it = plan.layouts.find(value);
      return it == plan.layouts.end() || succeeded(checkLength(user, value, it->second));
    };
    return success(llvm::all_of(scan.getStep().without_terminator(),
                                [&](Operation &op) { return fits(&op, op.getResult(0)); }) &&
                   llvm::all_of(scan.getStateArgs(), [&](Value arg) { return fits(scan, arg); }));
  }

  Layout layoutOfSum(CheckpointOp checkpoint) {
    Axis axis = checkpoint.getAxis();
    return plan.layoutOf(axis == Axis::head ? axis : StepPlan::across(axis));
  }

  /// Assigns a layout by length to the first vector that no op determined; returns whether there
  /// was one.
  bool placeFree() {
    auto place = [&](Value value) {
      return rankOf(value.getType()) == 1 && plan.stateful.contains(value) &&
             !aside.contains(value) && plan.layouts.try_emplace(value, freeLayout(value)).second;
    };
    return llvm::any_of(scan.getStateArgs(), place) ||
           llvm::any_of(scan.getStep().without_terminator(),
                        [&](Operation &op) { return place(op.getResult(0)); });
  }

  LogicalResult checkLength(Operation *user, Value value, Layout layout) {
    int64_t length = cast<VectorType>(value.getType()).getDimSize(0);
    int64_t wanted = layout == Layout::row ? plan.rows : plan.columns;
    if (length != wanted)
      return user->emitError() << "has a vector of " << length << " where the state has " << wanted
                               << "; the step-by-step schedule cannot place it";
    return success();
  }

  /// Records that `user` needs `value` with `layout`.
  LogicalResult demand(Operation *user, Value value, Layout layout, bool exponential = false) {
    if (plan.stateful.contains(value))
      return success();
    Operation *def = value.getDefiningOp();
    if (def && def->hasTrait<OpTrait::ConstantLike>())
      return success();
    if (auto broadcast = dyn_cast_or_null<vector::BroadcastOp>(def);
        broadcast && rankOf(broadcast.getSource().getType()) == 0)
      return demand(user, broadcast.getSource(), Layout::scalar, exponential);
    unsigned rank = rankOf(value.getType());
    if (rank == 2)
      return user->emitError("takes a K×V value that does not depend on the state; the "
                             "step-by-step schedule has no such values but constants");
    bool ofQuery = plan.queryValues.contains(value);
    if (rank == 0 && !ofQuery && isConstantInTime(scan, value))
      return success(); // computed once, before the loop
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
    if (isa_and_nonnull<StepIndexOp, HeadIndexOp, NumHeadsOp>(def))
      return success(); // every thread knows it
    if (!element && def && OpTrait::hasElementwiseMappableTraits(def)) {
      // A comparison, for example, is recomputed from its operands.
      for (Value operand : def->getOperands())
        if (failed(demand(user, operand, layout)))
          return failure();
      return success();
    }
    if (!element || element.getWidth() > 32)
      return user->emitError() << "takes a " << value.getType()
                               << " that does not depend on the state; only floats of up to 32 "
                                  "bits can be handed to the state's ops";
    if (rank == 1 && failed(checkLength(user, value, layout)))
      return failure();
    if (!plan.find(value, rank ? layout : Layout::scalar, exponential))
      plan.crossings.push_back({value, rank ? layout : Layout::scalar, exponential, ofQuery});
    return success();
  }

  LogicalResult collectCrossings() {
    for (Operation &op : scan.getStep()) {
      LogicalResult ok = success();
      if (isAside(&op))
        continue;
      if (auto decay = dyn_cast<DecayOp>(op)) {
        ok = demand(&op, decay.getGate(), plan.layoutOf(decay.getAxis()), /*exponential=*/true);
      } else if (auto outer = dyn_cast<OuterAddOp>(op)) {
        ok = success(succeeded(demand(&op, outer.getKey(), plan.layoutOf(Axis::key))) &&
                     succeeded(demand(&op, outer.getValue(), plan.layoutOf(Axis::value))));
      } else if (auto read = dyn_cast<ReadOp>(op)) {
        ok = demand(&op, read.getVector(), plan.layoutOf(read.getAxis()));
      } else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
        ok = demand(&op, checkpoint.getVector(), layoutOfSum(checkpoint));
      } else if (isReduction(&op) && !isOnlyChannel(&op)) {
        ok = demand(&op, op.getOperand(0),
                    plan.wholeState ? plan.layoutOfSummed(op.getOperand(0)) : Layout::row);
      } else if (auto yield = dyn_cast<YieldOp>(op)) {
        for (auto [arg, value] : llvm::zip(scan.getStateArgs(), yield.getStates()))
          if (failed(demand(&op, value, plan.layouts.lookup_or(arg, Layout::scalar))))
            return failure();
        for (Value value : yield.getSaves())
          if (!plan.stateful.contains(value))
            return op.emitError("saves a K×V value that does not depend on a state; the "
                                "step-by-step schedule has no such values but constants");
        for (Value value : yield.getOutputs())
          if (!aside.contains(value) && failed(demand(&op, value, freeLayout(value))))
            return failure();
      } else if (plan.stateful.contains(op.getResult(0))) {
        Layout layout = plan.layouts.lookup_or(op.getResult(0), Layout::scalar);
        for (Value operand : op.getOperands())
          if (failed(demand(&op, operand, layout)))
            return failure();
      }
      if (failed(ok))
        return failure();
    }
    return success();
  }

  /// The layout of a vector that may have either axis.
  Layout freeLayout(Value value) {
    if (rankOf(value.getType()) == 0)
      return Layout::scalar;
    int64_t length = cast<VectorType>(value.getType()).getDimSize(0);
    return length == plan.columns ? Layout::column : Layout::row;
  }

  bool isAside(Operation *op) const {
    return op->getNumResults() == 1 && aside.contains(op->getResult(0));
  }

  ScanOp scan;
  StepPlan plan;
  bool mayBeWhole = false;
  /// Values that another part of the kernel computes.
  llvm::DenseSet<Value> aside;
};
} // namespace

FailureOr<StepPlan> StepPlan::analyze(ScanOp scan, const llvm::DenseSet<Value> &aside,
                                      bool mayBeWhole) {
  return Planner(scan, /*singleStep=*/false, aside).analyze(mayBeWhole);
}

/// The figures of a plan for rows without states.
static void describeRows(const RowPlan &rows, ScanOp scan) {
  auto function = scan->getParentOfType<func::FuncOp>();
  cost::Decision(scan.getLoc(), function ? function.getName() : "", "row-tile",
                 Twine(rows.units) + "x" + Twine(rows.width) + " of " + Twine(rows.lanes) +
                     " lanes, " + Twine(rows.rows) + " rows at a time")
      .from("channels", rows.channels)
      .from("warps", rows.warps);
}

FailureOr<StepPlan> StepPlan::make(ScanOp scan, bool singleStep) {
  if (std::optional<RowPlan> rows = singleStep ? std::nullopt : RowPlan::of(scan)) {
    StepPlan plan;
    plan.scan = scan;
    plan.ofRows = rows;
    plan.colWarps = rows->warps;
    describeRows(*rows, scan);
    return plan;
  }
  FailureOr<StepPlan> plan = Planner(scan, singleStep).run();
  if (succeeded(plan)) {
    auto function = scan->getParentOfType<func::FuncOp>();
    cost::Decision(scan.getLoc(), function ? function.getName() : "", "step-tile",
                   Twine(plan->rowsPerThread) + "x" + Twine(plan->colsPerThread) + " of " +
                       Twine(plan->threads()) + " threads, " + Twine(plan->chunk) +
                       " steps a stage")
        .from("bytes of both stages", 8 * plan->stageFloats)
        .from("bytes that they may have", 4 * cost::kStageFloats)
        .from("unrolled steps", plan->unroll);
  }
  return plan;
}
