//===- ColumnStates.cpp - vectors that decay as matrices of one column ----===//
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Passes.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SmallStates.h"
#include "passes/scan/TensorSums.h"

namespace ejk {
#define GEN_PASS_DEF_COLUMNSTATES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// A vector state whose next value is made of it by gates of a number and by terms that are added,
/// and which the step only multiplies by vectors to sum the products over channels.
class Column {
public:
  /// Of state `number` of `scan`; none where it has another use.
  static std::optional<Column> find(ScanOp scan, unsigned number);

  unsigned number;
  /// The state's values in this step: what it starts from, and after each op of the step.
  SmallVector<Value> values;
  /// What is summed over channels, by the value of `values` that it is or has as a factor.
  llvm::DenseMap<Operation *, Value> sums;

private:
  bool takesUses(Value value, Operation *next);
};
} // namespace

/// The log of a factor e^g that is the same for all channels; null for others.
static Value logOf(Value factor) {
  auto broadcast = factor.getDefiningOp<vector::BroadcastOp>();
  if (!broadcast || isa<VectorType>(broadcast.getSourceType()))
    return {};
  auto exp = broadcast.getSource().getDefiningOp<math::ExpOp>();
  return exp && exp.getType().isF32() ? exp.getOperand() : Value();
}

/// The operand of `op` that is not `value`.
static Value otherOperand(Operation *op, Value value) {
  return op->getOperand(op->getOperand(0) == value ? 1 : 0);
}

bool Column::takesUses(Value value, Operation *next) {
  for (Operation *user : value.getUsers()) {
    if (user == next || (isa<YieldOp>(user) && value == values.back()))
      continue;
    if (isa<SumOp>(user)) {
      sums.try_emplace(user, value);
      continue;
    }
    if (!isa<arith::MulFOp>(user) || user->getOperand(0) == user->getOperand(1) ||
        user->use_empty() ||
        !llvm::all_of(user->getUsers(), [](Operation *sum) { return isa<SumOp>(sum); }))
      return false;
    for (Operation *sum : user->getUsers())
      sums.try_emplace(sum, value);
  }
  return true;
}

std::optional<Column> Column::find(ScanOp scan, unsigned number) {
  Column column;
  column.number = number;
  YieldOp yield = scan.getYield();
  Value arg = scan.getStateArgs()[number];
  if (llvm::is_contained(yield.getOutputs(), yield.getStates()[number]) ||
      llvm::count(yield.getStates(), yield.getStates()[number]) != 1)
    return std::nullopt;
  bool decays = false;
  SmallVector<Operation *> makers;
  for (Value value = yield.getStates()[number]; value != arg;) {
    column.values.push_back(value);
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<arith::MulFOp, arith::AddFOp>(op))
      return std::nullopt;
    bool onRight = !computedFrom(op->getOperand(0)).contains(arg);
    Value from = op->getOperand(onRight), other = op->getOperand(!onRight);
    if (computedFrom(other).contains(arg))
      return std::nullopt;
    if (isa<arith::MulFOp>(op)) {
      if (!logOf(other))
        return std::nullopt;
      decays = true;
    }
    makers.push_back(op);
    value = from;
  }
  column.values.push_back(arg);
  std::reverse(column.values.begin(), column.values.end());
  makers.insert(makers.begin(), nullptr);
  std::reverse(makers.begin(), makers.end()); // the op that takes each value on
  if (!decays)
    return std::nullopt;
  for (auto [value, next] : llvm::zip(column.values, makers))
    if (!column.takesUses(value, next))
      return std::nullopt;
  return column;
}

/// [N,H,C] as [N,H,C,1], or back.
static Value withColumn(OpBuilder &b, Location loc, Value state, RankedTensorType type) {
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  if (type.getRank() == 3)
    return tensor::CollapseShapeOp::create(b, loc, type, state, groups);
  return tensor::ExpandShapeOp::create(b, loc, type, state, groups);
}

static RankedTensorType columnType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  return RankedTensorType::get(shape, type.getElementType());
}

static void replaceByColumns(ScanOp scan, ArrayRef<Column> columns) {
  OpBuilder outer(scan);
  Location loc = scan.getLoc();
  YieldOp yield = scan.getYield();
  ScanBuilder made(outer, scan);
  IRMapping map;
  for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    map.map(arg, made.addSequence(tensor));
  for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
    map.map(arg, made.addParameter(tensor, arg.getType()));
  auto columnOf = [&](unsigned number) {
    return llvm::find_if(columns, [&](const Column &c) { return c.number == number; });
  };
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
    Value initial = scan.getInitialState(i);
    if (columnOf(i) != columns.end()) {
      type = columnType(type);
      initial = initial ? withColumn(outer, loc, initial, type) : initial;
    }
    map.map(arg, made.addState(type, initial));
  }

  llvm::DenseMap<Operation *, Value> sums;
  llvm::DenseMap<Operation *, Value> steps; // an op on the way of a column, and what it takes
  for (const Column &column : columns) {
    for (auto [sum, value] : column.sums)
      sums[sum] = value;
    for (auto [from, to] : llvm::zip(column.values, ArrayRef(column.values).drop_front()))
      steps[to.getDefiningOp()] = from;
  }
  auto isProductOfColumn = [&](Operation *op) {
    return isa<arith::MulFOp>(op) && !op->use_empty() && sums.contains(*op->user_begin());
  };
  OpBuilder &b = made.b;
  auto ones = [&](int64_t channels) -> Value {
    auto type = VectorType::get({channels}, b.getF32Type());
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, 1.0f));
  };
  for (Operation &op : scan.getStep().without_terminator()) {
    if (auto step = steps.find(&op); step != steps.end()) {
      Value state = map.lookup(step->second), other = otherOperand(&op, step->second);
      if (isa<arith::MulFOp>(op))
        state = DecayOp::create(b, op.getLoc(), state.getType(), state, map.lookup(logOf(other)),
                                Axis::head);
      else
        state =
            OuterAddOp::create(b, op.getLoc(), state.getType(), state, map.lookup(other), ones(1));
      map.map(op.getResult(0), state);
    } else if (auto sum = sums.find(&op); sum != sums.end()) {
      Value summed = op.getOperand(0), state = map.lookup(sum->second);
      Value by = summed == sum->second
                     ? ones(cast<VectorType>(summed.getType()).getDimSize(0))
                     : map.lookup(otherOperand(summed.getDefiningOp(), sum->second));
      Value read = ReadOp::create(b, op.getLoc(), VectorType::get({1}, b.getF32Type()), state, by,
                                  Axis::key);
      map.map(op.getResult(0), SumOp::create(b, op.getLoc(), op.getResult(0).getType(), read));
    } else if (!isProductOfColumn(&op)) { // which is computed with its sum
      b.clone(op, map);
    }
  }
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    made.setNext(map.lookup(arg), map.lookup(next));
  SmallVector<unsigned> outputs;
  for (Value value : yield.getOutputs())
    outputs.push_back(made.addOutput(map.lookup(value)));
  DictionaryAttr attributes = scan->getDiscardableAttrDictionary();
  ScanOp result = made.finish();
  result->setDiscardableAttrs(attributes);
  for (auto [i, output] : llvm::enumerate(scan.getOutputs()))
    output.replaceAllUsesWith(castLike(outer, loc, made.output(outputs[i]), output));
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    Value final = scan.getFinalStates()[i], state = made.finalState(map.lookup(arg));
    if (final.use_empty())
      continue;
    if (columnOf(i) != columns.end()) {
      auto type = cast<RankedTensorType>(state.getType());
      state = withColumn(outer, loc, state,
                         RankedTensorType::get(type.getShape().drop_back(), type.getElementType()));
    }
    final.replaceAllUsesWith(castLike(outer, loc, state, final));
  }
  scan.erase();
}

namespace {
struct ColumnStatesPass : ejk::impl::ColumnStatesBase<ColumnStatesPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) {
      if (mayCutStates(scan))
        scans.push_back(scan);
    });
    for (ScanOp scan : scans) {
      SmallVector<Column> columns;
      for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
        if (auto type = dyn_cast<VectorType>(arg.getType()); type && type.getRank() == 1)
          if (std::optional<Column> column = Column::find(scan, i))
            columns.push_back(*column);
      if (columns.empty())
        continue;
      numColumns += columns.size();
      replaceByColumns(scan, columns);
    }
  }
};
} // namespace
