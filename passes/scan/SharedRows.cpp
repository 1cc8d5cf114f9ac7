//===- SharedRows.cpp - rows that heads of a delta rule share -------------===//
//
// A chunk of a delta rule waits for its system, which needs the chunk's keys: to divide them by
// their length there makes that chain longer, in every head. A scan of rows before does it once for
// all heads that share a key.
//
//===----------------------------------------------------------------------===//
#include "passes/scan/SharedRows.h"
#include "dialect/shapes/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/SmallStates.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;

namespace {
class SharedRows {
public:
  explicit SharedRows(ScanOp scan)
      : scan(scan), shapes(scan->getParentOfType<func::FuncOp>()),
        heads(shapes.dim(scan.getSequences().front(), 2)) {}

  SmallVector<Value> find() {
    llvm::SetVector<Value> found;
    for (Operation &op : scan.getStep())
      if (isa<ReadOp, OuterAddOp>(op))
        for (Value operand : op.getOperands())
          if (isNormalised(operand))
            found.insert(operand);
    if (found.empty())
      return {};
    for (Operation &op : scan.getStep().without_terminator())
      if (isNumberForState(op))
        found.insert(op.getResult(0));
    return found.takeVector();
  }

private:
  /// The one sequence that `value` is computed of by ops that a scan of rows has; null if there are
  /// others, or something else.
  BlockArgument sourceOf(Value value) {
    BlockArgument source;
    for (Value each : computedFrom(value)) {
      if (Operation *op = each.getDefiningOp()) {
        bool isOfRows = isReduction(op) || isa<vector::BroadcastOp>(op) ||
                        op->hasTrait<OpTrait::ConstantLike>() ||
                        isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
        if (!isOfRows)
          return {};
        continue;
      }
      auto arg = cast<BlockArgument>(each);
      if (arg.getArgNumber() >= scan.getFirstStateArg())
        return {};
      bool isSequence = arg.getArgNumber() < scan.getSequences().size();
      if (isSequence && source)
        return {};
      if (isSequence)
        source = arg;
    }
    return source && parametersFit(value, source) ? source : BlockArgument();
  }

  /// Whether the parameters that `value` is computed of belong to no head, or to the heads of
  /// `source`.
  bool parametersFit(Value value, BlockArgument source) {
    for (Value each : computedFrom(value)) {
      auto arg = dyn_cast<BlockArgument>(each);
      if (!arg || arg.getArgNumber() < scan.getSequences().size())
        continue;
      Value tensor = scan.getParameters()[arg.getArgNumber() - scan.getSequences().size()];
      auto vector = dyn_cast<VectorType>(arg.getType());
      int64_t prefix =
          cast<RankedTensorType>(tensor.getType()).getRank() - (vector ? vector.getRank() : 0);
      if (prefix && !(shapes.dim(tensor, prefix - 1) == headsOf(source)))
        return false;
    }
    return true;
  }

  DimExpr headsOf(BlockArgument source) {
    return shapes.dim(scan.getSequences()[source.getArgNumber()], 2);
  }

  /// Whether `operand` is a vector of 16-bit rows that heads share, divided by what a sum over its
  /// channels says.
  bool isNormalised(Value operand) {
    auto type = dyn_cast<VectorType>(operand.getType());
    if (!type || type.getRank() != 1 || !type.getElementType().isF32() ||
        llvm::none_of(computedFrom(operand),
                      [](Value v) { return isReduction(v.getDefiningOp()); }))
      return false;
    BlockArgument source = sourceOf(operand);
    return source && getElementTypeOrSelf(source.getType()).getIntOrFloatBitWidth() == 16 &&
           !(headsOf(source) == heads);
  }

  /// Whether `op` is the last one of a function of a head's number, and its result goes to what
  /// depends on the state.
  bool isNumberForState(Operation &op) {
    if (op.getNumResults() != 1 || !op.getResult(0).getType().isF32())
      return false;
    BlockArgument source = sourceOf(op.getResult(0));
    if (!source || isa<VectorType>(source.getType()))
      return false;
    bool hasFunction = llvm::any_of(computedFrom(op.getResult(0)), [](Value v) {
      return isa_and_nonnull<math::MathDialect>(v.getDefiningOp() ? v.getDefiningOp()->getDialect()
                                                                  : nullptr);
    });
    return hasFunction && llvm::any_of(op.getUsers(), [&](Operation *user) {
             return user->getNumResults() != 1 || !sourceOf(user->getResult(0)) ||
                    isa<VectorType>(user->getResult(0).getType());
           });
  }

  ScanOp scan;
  ShapeAnalysis shapes;
  DimExpr heads;
};
} // namespace

SmallVector<Value> ejk::sharedRows(ScanOp scan) {
  auto gates = getDecayClass(scan);
  bool perHead =
      gates == DecayClass::none || gates == DecayClass::constant || gates == DecayClass::scalar;
  if (!perHead || !mayCutStates(scan) || !correctsState(scan) || scan.getTrailing())
    return {};
  return SharedRows(scan).find();
}

bool ejk::hasSharedRows(func::FuncOp function) {
  return llvm::any_of(function.getBody().getOps<ScanOp>(),
                      [](ScanOp scan) { return !sharedRows(scan).empty(); });
}

/// Clones into `to` the ops of `scan`'s step that `values` are computed from.
static void cloneFor(ScanOp scan, ArrayRef<Value> values, OpBuilder &to, IRMapping &map) {
  llvm::SetVector<Value> needed = computedFrom(values);
  for (Operation &op : scan.getStep().without_terminator())
    if (needed.contains(op.getResult(0)) && !map.contains(op.getResult(0)))
      to.clone(op, map);
}

namespace {
/// Rows that one scan computes, and the sequences that they are computed of.
struct Together {
  llvm::MapVector<Value, Value> sequences;
  SmallVector<Value> rows;
};
} // namespace

/// Vectors of one sequence together, and numbers of as many heads.
static SmallVector<Together> groupByHeads(ScanOp scan, ArrayRef<Value> rows) {
  ShapeAnalysis shapes(scan->getParentOfType<func::FuncOp>());
  SmallVector<Together> groups;
  for (Value row : rows) {
    BlockArgument source;
    for (Value each : computedFrom(row))
      if (auto arg = dyn_cast<BlockArgument>(each);
          arg && arg.getArgNumber() < scan.getSequences().size())
        source = arg;
    Value tensor = scan.getSequences()[source.getArgNumber()];
    auto fits = [&](Together &group) {
      auto [arg, first] = *group.sequences.begin();
      return arg == source ||
             (!isa<VectorType>(arg.getType()) && !isa<VectorType>(source.getType()) &&
              shapes.dim(first, 2) == shapes.dim(tensor, 2));
    };
    auto group = llvm::find_if(groups, fits);
    if (group == groups.end())
      group = &groups.emplace_back();
    group->sequences[source] = tensor;
    group->rows.push_back(row);
  }
  return groups;
}

SmallVector<ScanOp> ejk::cutSharedRows(ScanOp scan, ArrayRef<Value> rows) {
  OpBuilder outer(scan);
  DictionaryAttr attributes = scan->getDiscardableAttrDictionary();
  auto parametersOf = [&](ScanBuilder &sb, IRMapping &map, const llvm::SetVector<Value> &needed) {
    for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
      if (needed.contains(arg))
        map.map(arg, sb.addParameter(tensor, arg.getType()));
  };
  SmallVector<ScanOp> made;
  SmallVector<std::pair<Value, Value>> tensors;
  for (Together &together : groupByHeads(scan, rows)) {
    ScanBuilder sb(outer, scan, /*turned=*/false, together.sequences.begin()->second);
    IRMapping map;
    for (auto [arg, tensor] : together.sequences)
      map.map(arg, sb.addSequence(tensor));
    parametersOf(sb, map, computedFrom(together.rows));
    cloneFor(scan, together.rows, sb.b, map);
    for (Value row : together.rows)
      sb.addOutput(map.lookup(row));
    made.push_back(sb.finish());
    for (auto [i, row] : llvm::enumerate(together.rows))
      tensors.push_back({row, sb.output(i)});
  }

  // What is left, of the step's results down to these rows.
  YieldOp yield = scan.getYield();
  llvm::SetVector<Value> left;
  left.insert(yield.operand_begin(), yield.operand_end());
  for (unsigned i = 0; i < left.size(); ++i)
    if (Operation *op = left[i].getDefiningOp(); op && !llvm::is_contained(rows, left[i]))
      left.insert(op->operand_begin(), op->operand_end());
  ScanBuilder sb(outer, scan);
  IRMapping map;
  for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    if (left.contains(arg))
      map.map(arg, sb.addSequence(tensor));
  for (auto [value, tensor] : tensors)
    map.map(value, sb.addSequence(tensor));
  parametersOf(sb, map, left);
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    map.map(arg, sb.addState(cast<RankedTensorType>(scan.getFinalStates()[i].getType()),
                             scan.getInitialState(i)));
  for (Operation &op : scan.getStep().without_terminator())
    if (left.contains(op.getResult(0)) && !map.contains(op.getResult(0)))
      sb.b.clone(op, map);
  for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    sb.setNext(map.lookup(arg), map.lookup(next));
  for (Value output : yield.getOutputs())
    sb.addOutput(map.lookup(output));
  ScanOp rest = sb.finish();
  rest->setDiscardableAttrs(attributes);
  for (auto [old, now] : llvm::zip(scan->getResults(), rest->getResults())) {
    Value result = now;
    if (old.getType() != now.getType() && !old.use_empty())
      result = tensor::CastOp::create(outer, scan.getLoc(), old.getType(), now);
    old.replaceAllUsesWith(result);
  }
  scan.erase();
  made.push_back(rest);
  return made;
}
