//===- FewHeads.cpp - when a gradient's roundings do not average out -------===//
//
// The gradient of a gate that is a number per head is a number per head, or per head and row. Each
// is a sum of terms that may nearly cancel. Over many heads, the norm of the gradient hardly ever
// is small for it; of few heads it may be. The same holds for gates of one or a few channels, and
// for every gradient of a recurrence that corrects its state.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "passes/Rounding.h"
#include "passes/scan/ScanProperties.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

static bool hasNarrowRows(ScanOp scan) {
  return llvm::any_of(scan.getSequences(), [](Value rows) {
    Type type = getElementTypeOrSelf(rows.getType());
    return type.isF16() || type.isBF16();
  });
}

/// Whether `scan`, by chunks, rounds what a gate's gradient is computed from.
static bool roundsGateGradients(ScanOp scan) {
  return hasNarrowRows(scan) && !scan.getStep().getOps<GateGradientOp>().empty();
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

/// How many numbers per row the gradients in question have; and the rows of all sequences, where
/// many rows make up for few numbers.
struct Numbers {
  std::optional<DimExpr> rows;
  DimExpr perRow;
};

/// Of the gradients of gates that chunks round, the fewest.
static std::optional<Numbers> countGateGradients(func::FuncOp function,
                                                 const ShapeAnalysis &shapes) {
  auto scans = function.getBody().getOps<ScanOp>();
  auto rounding = llvm::find_if(scans, roundsGateGradients);
  if (rounding == scans.end())
    return std::nullopt;
  std::optional<DimExpr> fewest;
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    if (std::optional<DimExpr> own = numbersOf(shapes, result))
      fewest = fewest ? DimExpr::make(DimExpr::Operator::minimum, *fewest, *own) : *own;
  if (!fewest)
    return std::nullopt;
  return Numbers{shapes.dim((*rounding).getSequences().front(), 1), *fewest};
}

/// Of the heads of a derivative whose recurrence corrects its state: where keys point nearly one
/// way, the roundings of a head's rows add up, however many, and only those of other heads average
/// out. Those are heads that have a state: several of them may share a key.
static std::optional<Numbers> countCorrectedHeads(func::FuncOp function,
                                                  const ShapeAnalysis &shapes) {
  if (!function->hasAttr(kDerivativeOfAttr))
    return std::nullopt;
  for (ScanOp scan : function.getBody().getOps<ScanOp>())
    if (correctsState(scan) && hasNarrowRows(scan)) {
      Value rows = scan.getOutputs().empty() ? scan.getSequences().front() : scan.getOutputs().front();
      return Numbers{std::nullopt, DimExpr::make(DimExpr::Operator::multiply, shapes.dim(rows, 0),
                                                 shapes.dim(rows, 2))};
    }
  return std::nullopt;
}

HeadNumbers ejk::countHeads(func::FuncOp function) {
  HeadNumbers found;
  ShapeAnalysis shapes(function);
  bool corrects = llvm::any_of(function.getBody().getOps<ScanOp>(), correctsState);
  std::optional<Numbers> numbers = corrects ? countCorrectedHeads(function, shapes)
                                            : countGateGradients(function, shapes);
  if (!numbers)
    return found;
  found.exist = true;
  auto isKnown = [](const DimExpr &size) { return size.kind == DimExpr::Kind::constant; };
  if ((isKnown(numbers->perRow) && numbers->perRow.value >= kFewHeads) ||
      (numbers->rows && isKnown(*numbers->rows) && numbers->rows->value >= kRowsOfManyTerms))
    return found;
  Builder b(function.getContext());
  ArrayAttr few;
  for (auto [size, limit] : {std::pair(std::optional(numbers->perRow), kFewHeads),
                             std::pair(numbers->rows, kRowsOfManyTerms)}) {
    if (!size || isKnown(*size))
      continue;
    Attribute spelled = sizeAttribute(b, *size);
    if (!spelled)
      return found;
    few = both(b, few, condition(b, "<", spelled, b.getI64IntegerAttr(limit)));
  }
  found.mayBeFew = true;
  found.areFew = few;
  return found;
}
