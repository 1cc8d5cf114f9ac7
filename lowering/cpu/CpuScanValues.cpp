//===- CpuScanValues.cpp - a step's values, where they are asked for ------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/kernels/StepElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/scan/ScanProperties.h"
#include <limits>

using namespace mlir;
using namespace ejk;

static bool isVector(Value value) { return isa<VectorType>(value.getType()); }

/// The number that `value` repeats in every channel, or `value` itself.
static Value throughBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
  return broadcast && !isVector(broadcast.getSource()) ? broadcast.getSource() : value;
}

/// The position of the other half's channels.
Value CpuScanEmitter::turned(Layout layout, Value position) {
  int64_t half = (layout == Layout::row ? steps.rows : steps.columns) / 2;
  return b.make<arith::SelectOp>(b.less(position, half), b.add(position, half),
                                 b.sub(position, half));
}

//===----------------------------------------------------------------------===//
// What is constant in time
//===----------------------------------------------------------------------===//

void CpuScanEmitter::computeInvariants() {
  invariants.clear();
  invariantExponentials.clear();
  inPrologue = true; // so that nothing is staged for it
  Scope scope;
  for (Value arg : scan.getParameterArgs())
    if (!isVector(arg))
      invariants[arg] = evaluate(arg, {}, scope);
  for (Operation &op : scan.getStep().without_terminator()) {
    Value result = op.getResult(0);
    // The prologue computes sums over channels, of parameters too, and gradients, which know rows.
    if (!plan.late.contains(result) && !steps.stateful.contains(result) && !isVector(result) &&
        isConstantInTime(scan, result))
      invariants[result] = evaluate(result, {}, scope);
  }
  scan.getBody().walk([&](DecayOp decay) {
    Value gate = throughBroadcast(decay.getGate());
    if (Value value = invariants.lookup(gate))
      invariantExponentials[gate] = b.make<math::ExpOp>(b.widen(value));
  });
  inPrologue = false;
}

//===----------------------------------------------------------------------===//
// What the prologue stages
//===----------------------------------------------------------------------===//

/// Whether column blocks load `value` rather than compute it: floats that are no mere
/// operand of the scan, and vectors along the rows.
bool CpuScanEmitter::isStaged(Value value, Layout layout) const {
  bool isRow = hasChannels(value);
  if (inPrologue || plan.late.contains(value) || (isRow && layout != Layout::row))
    return false;
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (!element || element.getWidth() > 32 || matchPattern(value, m_Constant()) ||
      invariants.lookup(value))
    return false;
  // A number spread over the channels is that number.
  if (isRow && throughBroadcast(value) != value)
    return false;
  auto arg = dyn_cast<BlockArgument>(value);
  return isRow || !arg || arg.getArgNumber() >= scan.getFirstStateArg();
}

Value CpuScanEmitter::loadStaged(Value value, const Channels &at, bool isExponential) {
  bool isRow = hasChannels(value);
  Layout layout = isRow ? Layout::row : Layout::scalar;
  auto same = [&](const Staged &s) {
    return s.value == value && s.layout == layout && s.exponential == isExponential;
  };
  auto found = llvm::find_if(staged, same);
  if (found == staged.end()) {
    Value buffer = allocate(int64_t(plan.chunk) * (isRow ? plan.paddedRows() : 1));
    staged.push_back({value, layout, isExponential, buffer});
    found = std::prev(staged.end());
  }
  Value offset = inChunk;
  if (isRow)
    offset = b.add(b.mul(inChunk, plan.paddedRows()), at.position);
  Type type = CpuBuilder::withCount(b.getF32Type(), isRow ? at.width : 1);
  Value loaded = b.loadLanes(type, floatAt(found->buffer, offset));
  // A narrow value was staged in f32, which holds it exactly.
  return isExponential ? loaded : b.roundTo(getElementTypeOrSelf(value.getType()), loaded);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value CpuScanEmitter::exponential(Value gate, const Channels &at, Scope &scope) {
  gate = throughBroadcast(gate);
  if (Value known = invariantExponentials.lookup(gate))
    return known;
  if (isStaged(gate, at.layout))
    return loadStaged(gate, at, /*isExponential=*/true);
  // Its argument is at hand without the prologue, but its exponential costs more than a load.
  bool isNumber = !hasChannels(gate);
  if (isNumber && !inPrologue && !plan.late.contains(gate) && !matchPattern(gate, m_Constant()))
    return loadStaged(gate, {}, /*isExponential=*/true);
  return b.make<math::ExpOp>(evaluateWide(gate, at, scope));
}

Value CpuScanEmitter::evaluate(Value value, const Channels &at, Scope &scope) {
  if (Value known = scope.lookup(value))
    return known;
  if (Value known = invariants.lookup(value))
    return known;
  Value result;
  if (isStaged(value, at.layout)) {
    result = loadStaged(value, at, /*isExponential=*/false);
  } else if (auto arg = dyn_cast<BlockArgument>(value)) {
    result = loadArgument(arg, at);
  } else {
    result = evaluateOp(value.getDefiningOp(), at, scope);
  }
  scope.known[value] = result;
  return result;
}

Value CpuScanEmitter::loadArgument(BlockArgument value, const Channels &at) {
  // States are known, or staged.
  unsigned number = value.getArgNumber(), width = hasChannels(value) ? at.width : 1;
  bool isSequence = number < sequences.size();
  const Row &row = isSequence ? sequences[number] : parameters[number - sequences.size()];
  Value base = row.base, exists, offset = b.i64(0);
  if (row.shift) {
    ShiftedRow found =
        ShiftedRow::of(b, row.shift, currentRow, currentRow, sequence, length);
    // Where there is no row, this step's is loaded and not used.
    Value otherwise = row.haloBase ? found.haloRow : currentRow;
    Value there = b.make<arith::SelectOp>(found.inside, found.row, otherwise), stride = row.stride;
    if (row.haloBase) {
      base = b.make<arith::SelectOp>(found.inside, base, row.haloBase);
      stride = b.make<arith::SelectOp>(found.inside, stride, row.haloStride);
    } else {
      exists = found.inside;
    }
    offset = b.mul(there, stride);
  } else if (isSequence) {
    offset = b.mul(currentRow, row.stride);
  }
  if (hasChannels(value))
    offset = b.add(offset, at.position);
  Type type = CpuBuilder::withCount(value.getType(), width);
  Value loaded =
      b.loadLanes(type, b.at(base, row.element, offset), width > 1 ? at.mask : Value());
  return exists ? b.make<arith::SelectOp>(exists, loaded, b.zero(type)).getResult() : loaded;
}

Value CpuScanEmitter::evaluateOp(Operation *op, const Channels &at, Scope &scope) {
  Value value = op->getResult(0);
  unsigned width = hasChannels(value) ? at.width : 1;
  Type type = isVector(value) ? CpuBuilder::withCount(value.getType(), width) : value.getType();
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant))) {
    if (auto dense = dyn_cast<DenseElementsAttr>(constant))
      constant = dense.getSplatValue<Attribute>();
    if (auto vector = dyn_cast<VectorType>(type))
      constant = DenseElementsAttr::get(vector, constant);
    return b.make<arith::ConstantOp>(cast<TypedAttr>(constant));
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return b.splat(evaluate(broadcast.getSource(), at, scope), width);
  if (isa<HeadIndexOp, NumHeadsOp>(op))
    return b.make<arith::IndexCastOp>(b.getIndexType(), isa<HeadIndexOp>(op) ? head : heads);
  if (isa<StepIndexOp>(op))
    return b.make<arith::IndexCastOp>(b.getIndexType(), currentRow);
  if (isOnlyChannel(op))
    return evaluate(op->getOperand(0), at, scope);
  if (auto rotate = dyn_cast<RotateHalfOp>(op)) {
    Scope otherHalf;
    Channels there = at;
    there.position = turned(at.layout, at.position);
    Value vector = evaluate(rotate.getVector(), there, otherHalf);
    int64_t half = cast<VectorType>(value.getType()).getDimSize(0) / 2;
    Value isFirstHalf = b.less(at.position, half);
    return b.make<arith::SelectOp>(isFirstHalf, b.make<arith::NegFOp>(vector), vector);
  }
  if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
    Value otherwise = b.splat(evaluateWide(checkpoint.getVector(), at, scope), width);
    Value sum = checkpointSums.lookup(op);
    if (!sum)
      return otherwise;
    return b.make<arith::SelectOp>(entersChunk(currentRow), sum, otherwise);
  }
  if (auto gradient = dyn_cast<GateGradientOp>(op)) {
    Value x = evaluate(gradient.getGradient(), at, scope);
    Value gate = b.splat(evaluate(gradient.getGate(), at, scope), width);
    Value lowest = b.number(-std::numeric_limits<double>::infinity(), width);
    Value none = b.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, gate, lowest);
    Value idle;
    if (gradient.getZeroFirst())
      idle = isFirstRow(currentRow);
    if (gradient.getZeroLast()) {
      Value isLast = isLastRow(currentRow);
      idle = idle ? b.make<arith::OrIOp>(idle, isLast) : isLast;
    }
    if (idle)
      none = b.make<arith::OrIOp>(none, b.splat(idle, width));
    return b.make<arith::SelectOp>(none, b.number(0, width), x);
  }
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, evaluate(operand, at, scope));
  return cloneStepOp(b, op, operands, type);
}
