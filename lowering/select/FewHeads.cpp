//===- FewHeads.cpp - when a gate's gradient is few numbers ----------------===//
//
// The gradient of a gate that is a number per head is a number per head, or per head and row. Each
// is a sum of terms that may nearly cancel. Over many heads, the norm of the gradient hardly ever
// is small for it; of few heads it may be. The same holds for gates of one or a few channels.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "passes/Rounding.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

/// Whether `scan`, by chunks, rounds what a gate's gradient is computed from.
static bool roundsGradients(ScanOp scan) {
  auto isNarrow = [](Value rows) {
    Type type = getElementTypeOrSelf(rows.getType());
    return type.isF16() || type.isBF16();
  };
  return llvm::any_of(scan.getSequences(), isNarrow) &&
         !scan.getStep().getOps<GateGradientOp>().empty();
}

/// Whether what a step adds depends on what it reads, as in a delta rule. There other roundings
/// decide (docs/delta-rule.md).
static bool correctsStates(ScanOp scan) {
  auto dependsOnRead = [&](Value value) {
    SmallVector<Value> open = {value};
    llvm::DenseSet<Value> seen;
    while (!open.empty()) {
      Operation *op = open.pop_back_val().getDefiningOp();
      if (isa_and_present<ReadOp>(op))
        return true;
      if (op)
        for (Value operand : op->getOperands())
          if (!isa<DecayOp, OuterAddOp>(op) && seen.insert(operand).second)
            open.push_back(operand);
    }
    return false;
  };
  return llvm::any_of(scan.getStep().getOps<OuterAddOp>(), [&](OuterAddOp add) {
    return dependsOnRead(add.getKey()) || dependsOnRead(add.getValue());
  });
}

/// Whether `value` of a step is computed from a gate's gradient.
static bool isOfGateGradient(Value value) {
  llvm::SetVector<Value> open;
  open.insert(value);
  for (unsigned i = 0; i < open.size(); ++i)
    if (Operation *op = open[i].getDefiningOp()) {
      if (isa<GateGradientOp>(op))
        return true;
      open.insert(op->operand_begin(), op->operand_end());
    }
  return false;
}

/// The same of a function's `result`.
static bool isGateGradient(Value result) {
  llvm::SetVector<Value> open;
  open.insert(result);
  for (unsigned i = 0; i < open.size(); ++i) {
    Operation *op = open[i].getDefiningOp();
    auto scan = dyn_cast_or_null<ScanOp>(op);
    if (!scan) {
      if (op)
        open.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    unsigned number = cast<OpResult>(open[i]).getResultNumber();
    if (number < scan.getOutputs().size() &&
        isOfGateGradient(scan.getYield().getOutputs()[number]))
      return true;
  }
  return false;
}

/// How many numbers a step has of a result of rank 1, [H], 2, [N,H], or 3, [B,T,H]; and of one of
/// rank 4, [B,T,H,K], if it is the gradient of a gate of so few channels that it may be few numbers.
static std::optional<DimExpr> numbersOf(const ShapeAnalysis &shapes, Value result) {
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (!type || !isa<FloatType>(type.getElementType()) || !type.getRank() || type.getRank() > 4)
    return std::nullopt;
  int64_t last = type.getRank() - 1;
  DimExpr numbers = shapes.dim(result, last);
  auto times = [&](unsigned dim) {
    numbers = DimExpr::make(DimExpr::Operator::multiply, shapes.dim(result, dim), numbers);
  };
  if (last == 3) {
    if (type.isDynamicDim(3) || type.getDimSize(3) >= kFewHeads || !isGateGradient(result))
      return std::nullopt;
    times(2);
  }
  if (last > 0)
    times(0);
  return numbers;
}

HeadNumbers ejk::countHeads(func::FuncOp function) {
  HeadNumbers found;
  auto scans = llvm::to_vector(function.getBody().getOps<ScanOp>());
  ShapeAnalysis shapes(function);
  std::optional<DimExpr> heads, rows;
  for (ScanOp scan : scans)
    if (roundsGradients(scan) && !rows)
      rows = shapes.dim(scan.getSequences().front(), 1);
  if (!rows || llvm::any_of(scans, correctsStates))
    return found;
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    if (std::optional<DimExpr> own = numbersOf(shapes, result))
      heads = heads ? DimExpr::make(DimExpr::Operator::minimum, *heads, *own) : *own;
  if (!heads)
    return found;
  found.exist = true;
  auto isKnown = [](const DimExpr &size) { return size.kind == DimExpr::Kind::constant; };
  if ((isKnown(*heads) && heads->value >= kFewHeads) ||
      (isKnown(*rows) && rows->value >= kRowsOfManyTerms))
    return found;
  Builder b(function.getContext());
  ArrayAttr few;
  for (auto [size, limit] : {std::pair(*heads, kFewHeads), std::pair(*rows, kRowsOfManyTerms)}) {
    if (isKnown(size))
      continue;
    Attribute spelled = sizeAttribute(b, size);
    if (!spelled)
      return found;
    few = both(b, few, condition(b, "<", spelled, b.getI64IntegerAttr(limit)));
  }
  found.mayBeFew = true;
  found.areFew = few;
  return found;
}
