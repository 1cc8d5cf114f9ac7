//===- CpuScanPlan.cpp - how a scan is computed on a CPU ------------------===//
#include "lowering/cpu/CpuScanPlan.h"
#include "lowering/target/CostModel.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SideReads.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ejk;


/// The power of two up to `widest` in which `count` channels waste the fewest lanes, the wider
/// one of equals; not narrower than a register of `lanes`, where the channels fill one.
static unsigned chooseWidth(int64_t count, unsigned lanes, unsigned widest) {
  if (count < int64_t(lanes))
    return unsigned(llvm::PowerOf2Ceil(count));
  unsigned best = lanes;
  for (unsigned width = lanes; width <= widest; width *= 2)
    if (llvm::alignTo(count, width) <= llvm::alignTo(count, best))
      best = width;
  return best;
}

/// A late value follows from a matrix, a read or a state along the columns, in this step or in
/// an earlier one.
static void findLate(CpuScanPlan &plan) {
  ScanOp scan = plan.steps.scan;
  auto isLateState = [&](Value arg) {
    auto layout = plan.steps.layouts.find(arg);
    return isMatrix(arg) ||
           (layout != plan.steps.layouts.end() && layout->second == Layout::column);
  };
  for (Value arg : scan.getStateArgs())
    if (isLateState(arg))
      plan.late.insert(arg);
  size_t before;
  do {
    before = plan.late.size();
    for (Operation &op : scan.getStep().without_terminator())
      if (isa<ReadOp, CheckpointOp>(op) || isMatrix(op.getResult(0)) ||
          llvm::any_of(op.getOperands(), [&](Value v) { return plan.late.contains(v); }))
        plan.late.insert(op.getResult(0));
    for (auto [arg, next] : llvm::zip(scan.getStateArgs(), scan.getYield().getStates()))
      if (plan.late.contains(next))
        plan.late.insert(arg);
  } while (plan.late.size() != before);
}

static void findLevels(CpuScanPlan &plan) {
  ScanOp scan = plan.steps.scan;
  auto note = [&](Value value) { plan.lastLevel = std::max(plan.lastLevel, plan.levelOf(value)); };
  for (Operation &op : scan.getStep().without_terminator()) {
    if (plan.aside.contains(op.getResult(0)))
      continue;
    unsigned level = 0;
    for (Value operand : op.getOperands())
      level = std::max(level, plan.levelOf(operand));
    if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      // Its sum needs the state alone; the vector stands in for the sum at other steps.
      note(checkpoint.getState());
      level = std::max(level, plan.levelOf(checkpoint.getState()) + 1);
    } else if (isa<ReadOp>(op)) {
      plan.lastLevel = std::max(plan.lastLevel, level++);
    }
    plan.levels[op.getResult(0)] = level;
  }
  YieldOp yield = scan.getYield();
  for (Value value : yield.getStates())
    if (isMatrix(value))
      note(value);
  for (Value value : yield.getSaves())
    note(value);
}

/// The states of `plan`'s scan as chains of decays and outer products by what does not depend
/// on a state; none where one of them, or a use of one, is anything else.
static SmallVector<LinearState> findLinear(const CpuScanPlan &plan) {
  ScanOp scan = plan.steps.scan;
  SmallVector<LinearState> states;
  llvm::DenseMap<Value, unsigned> stateOf; // of each matrix in a chain
  auto isEarly = [&](Value vector) { return !plan.late.contains(vector); };
  YieldOp yield = scan.getYield();
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    if (!isMatrix(arg))
      continue;
    LinearState state{unsigned(i), {}, {}};
    Value value = yield.getStates()[i];
    for (; value != arg; value = value.getDefiningOp()->getOperand(0)) {
      Operation *op = value.getDefiningOp();
      if (!isa_and_nonnull<DecayOp, OuterAddOp>(op) ||
          !llvm::all_of(op->getOperands().drop_front(), isEarly))
        return {};
      stateOf[value] = states.size();
      state.chain.insert(state.chain.begin(), op);
    }
    stateOf[arg] = states.size();
    states.push_back(std::move(state));
  }
  for (Operation &op : scan.getStep().without_terminator()) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto found = stateOf.find(read.getState());
      if (found == stateOf.end() || !isEarly(read.getVector()))
        return {};
      LinearState &state = states[found->second];
      (plan.aside.contains(read.getResult()) ? state.sideReads : state.reads).push_back(read);
    } else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      // It is summed before the first step of a block.
      auto arg = dyn_cast<BlockArgument>(checkpoint.getState());
      if (!arg)
        return {};
    } else if (isMatrix(op.getResult(0)) && !stateOf.count(op.getResult(0))) {
      return {};
    }
  }
  for (auto [i, value] : llvm::enumerate(yield.getSaves())) {
    auto found = stateOf.find(value);
    if (found == stateOf.end() || states[found->second].save)
      return {};
    LinearState &state = states[found->second];
    state.save = i;
    // Behind it, the step may add to the state, but not decay it.
    for (Operation *op : llvm::reverse(state.chain)) {
      if (op->getResult(0) == value)
        break;
      if (isa<DecayOp>(op))
        return {};
      ++state.addsAfterSave;
    }
  }
  return states;
}

/// Vector registers that one pass over the rows needs for `count` steps.
static unsigned registersOfLinear(const SmallVector<LinearState> &states, unsigned count,
                                  unsigned vectors) {
  unsigned most = 0;
  for (const LinearState &state : states) {
    // Terms and sums stay in registers; the row itself and an operand pass through others.
    unsigned kept = count * (state.numAdds() + state.reads.size());
    most = std::max(most, (kept + 1) * vectors + 2);
  }
  return most;
}

/// Whether kernels keep the saved states `saves` by the rows of their tiles: either those are
/// rows of K×V matrices, or nothing but kernels with the same rows ever sees them.
static bool liesByRow(Value saves, Axis rowAxis) {
  if (rowAxis == Axis::key)
    return true;
  auto isLikewise = [&](Operation *op) {
    auto scan = dyn_cast_or_null<ScanOp>(op);
    return scan && getReadAxis(scan) == rowAxis;
  };
  return isLikewise(saves.getDefiningOp()) && llvm::all_of(saves.getUses(), [&](OpOperand &use) {
    return isLikewise(use.getOwner()) &&
           llvm::is_contained(cast<ScanOp>(use.getOwner()).getSavedStates(), saves);
  });
}

FailureOr<CpuScanPlan> CpuScanPlan::make(ScanOp scan, const CpuTarget &target) {
  CpuScanPlan plan;
  if (!scan.getQueries().empty())
    return scan.emitError("has queries; run --ejk-expand-queries first"), failure();
  if (auto side = findSideReads(scan))
    plan.aside = std::move(side->values);
  FailureOr<StepPlan> steps = StepPlan::analyze(scan, plan.aside);
  if (failed(steps))
    return failure();
  plan.steps = *steps;
  findLate(plan);
  for (Value arg : scan.getStateArgs()) {
    auto layout = plan.steps.layouts.find(arg);
    if (plan.late.contains(arg) && layout != plan.steps.layouts.end() &&
        layout->second == Layout::row)
      return scan.emitError("carries a vector along the axis that its reads sum, which depends on "
                            "a read; a CPU's schedule has no such states"),
             failure();
  }
  findLevels(plan);
  for (Value saves : scan.getSaves())
    plan.savesByRow.push_back(liesByRow(saves, plan.steps.rowAxis));
  for (Value saved : scan.getSavedStates())
    plan.savedByRow.push_back(liesByRow(saved, plan.steps.rowAxis));

  // Four steps in a pass cost 2.25 operations a row and step in place of 3; more steps would save
  // less than their dot products cost. A second vector of columns halves the loads.
  plan.linear = findLinear(plan);
  bool isSingle = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1) == 1;
  unsigned widest = 2 * std::max(8u, target.lanes);
  // States that are stored after each row are there after each row.
  bool storesEach = !scan.getSaves().empty() && *scan.getSaveEvery() == 1;
  if (!plan.linear.empty() && !isSingle && !storesEach) {
    plan.timeBlock = cost::kTimeBlockOnCpu;
    auto fits = [&](unsigned vectors) {
      return registersOfLinear(plan.linear, plan.timeBlock, vectors) <= target.registers;
    };
    while (plan.timeBlock > 1 && !fits(1))
      plan.timeBlock /= 2;
    while (plan.timeBlock > 1 && widest > target.lanes && !fits(widest / target.lanes))
      widest /= 2;
  }
  plan.lanes = target.lanes;
  plan.width = chooseWidth(plan.steps.columns, target.lanes, widest);
  plan.rowWidth = chooseWidth(plan.steps.rows, target.lanes, target.lanes);
  // Channels that are turned lie in one half of their vector.
  scan.getBody().walk([&](RotateHalfOp op) {
    int64_t half = cast<VectorType>(op.getResult().getType()).getNumElements() / 2;
    while (half % plan.width)
      plan.width /= 2;
    while (half % plan.rowWidth)
      plan.rowWidth /= 2;
  });
  plan.blocks = unsigned(llvm::divideCeil(plan.steps.columns, plan.width));
  unsigned side = std::min(target.lanes, plan.width);
  if (plan.steps.rows % side == 0 && plan.steps.columns % side == 0)
    plan.squareSide = side;
  plan.unroll = unsigned(std::min<int64_t>(plan.steps.rows, 4));

  uint64_t tileBytes = sizeof(float) * plan.width;
  for (Value arg : scan.getStateArgs())
    if (isMatrix(arg))
      tileBytes += sizeof(float) * plan.width * plan.steps.rows;
  uint64_t fitting = std::clamp<uint64_t>(cost::kTileBytesOnCpu / tileBytes, 1, plan.blocks);
  plan.group = plan.hasSideReads() ? plan.blocks : unsigned(fitting);

  uint64_t stepBytes = sizeof(float);
  for (const Crossing &crossing : plan.steps.crossings)
    stepBytes += sizeof(float) * (crossing.layout == Layout::row ? plan.paddedRows() : 1);
  uint64_t cached = llvm::bit_floor(std::max<uint64_t>(target.firstCacheBytes / stepBytes, 1));
  plan.chunk = unsigned(std::clamp<uint64_t>(cached, 4, cost::kMostStepsOnCpu));
  return plan;
}
