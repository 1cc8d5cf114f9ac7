//===- Interpreter.cpp - functions, and the ops that are short ------------===//
#include "dialect/reference/Interpreter.h"
#include "dialect/reference/Constants.h"
#include "dialect/reference/Elementwise.h"
#include "dialect/reference/Handlers.h"
#include "dialect/reference/Shifts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
class FunctionInterpreter {
public:
  FunctionInterpreter(const Options &options, unsigned depth) : options(options), depth(depth) {}
  FailureOr<SmallVector<Tensor>> run(func::FuncOp function, ArrayRef<Tensor> arguments);

private:
  LogicalResult dispatch(Operation *op, Operands operands, Results &results);
  LogicalResult elementwise(Operation *op, Operands operands, Results &results);
  LogicalResult constant(Operation *op, Results &results);
  LogicalResult empty(tensor::EmptyOp op, Operands operands, Results &results);
  LogicalResult dim(tensor::DimOp op, Operands operands, Results &results);
  LogicalResult castShape(tensor::CastOp op, Operands operands, Results &results);
  LogicalResult fromElements(tensor::FromElementsOp op, Operands operands, Results &results);
  LogicalResult reshape(Operation *op, Operands operands, Results &results);
  LogicalResult extractSlice(tensor::ExtractSliceOp op, Operands operands, Results &results);
  LogicalResult call(func::CallOp op, Operands operands, Results &results);

  const Options &options;
  /// The depth of nested calls.
  unsigned depth;
  llvm::DenseMap<Value, Tensor> values;
};
} // namespace

/// Verifies that `tensor` is a value of `type`.
static LogicalResult checkType(llvm::function_ref<InFlightDiagnostic()> emit, const Tensor &tensor,
                               Type type, const Twine &what) {
  bool fits = tensor.element == getElementTypeOrSelf(type);
  auto ranked = dyn_cast<RankedTensorType>(type);
  ArrayRef<int64_t> shape = ranked ? ranked.getShape() : ArrayRef<int64_t>();
  fits &= size_t(tensor.rank()) == shape.size();
  for (size_t dim = 0; fits && dim < shape.size(); ++dim)
    fits = ShapedType::isDynamic(shape[dim]) || shape[dim] == tensor.shape[dim];
  if (fits)
    return success();
  return emit() << what << " must be " << type << ", but is " << tensor.typeName();
}

//===----------------------------------------------------------------------===//
// One function per op
//===----------------------------------------------------------------------===//

LogicalResult FunctionInterpreter::elementwise(Operation *op, Operands operands, Results &results) {
  RowKernel kernel = elementwiseKernel(op, options.precision);
  if (!kernel)
    return unknownOp(op);
  // The tensors have equal shapes, but a select may have a scalar condition.
  const Tensor *model = operands.front();
  for (const Tensor *operand : operands)
    if (operand->rank() > model->rank())
      model = operand;
  SmallVector<Tensor> spread;
  spread.reserve(operands.size());
  SmallVector<Row> rows;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor *operand = operands[i];
    if (operand->rank() == 0 && model->rank() > 0) {
      spread.push_back(Tensor::zeros(operand->element, model->shape));
      Tensor &wide = spread.back();
      if (operand->isFloat())
        llvm::fill(wide.floats, operand->floats[0]);
      else
        llvm::fill(wide.ints, operand->ints[0]);
      operand = &wide;
    }
    if (operand->shape != model->shape)
      return op->emitError() << "operand " << i << " must have the shape "
                             << spellShape(model->shape) << " of the others, but has "
                             << spellShape(operand->shape);
    rows.push_back({const_cast<double *>(operand->floats.data()),
                    const_cast<int64_t *>(operand->ints.data())});
  }
  Type type = op->getResult(0).getType();
  if (model->rank() == 0)
    results.push_back(Tensor::zeros(getElementTypeOrSelf(type), {}));
  else if (failed(addResult(op, type, model->shape, results)))
    return failure();
  Tensor &result = results.back();
  kernel(rows.data(), {result.floats.data(), result.ints.data()}, result.size());
  return success();
}

LogicalResult FunctionInterpreter::constant(Operation *op, Results &results) {
  FailureOr<Tensor> value = constantValue(op, options.precision);
  if (failed(value))
    return failure();
  results.push_back(std::move(*value));
  return success();
}

LogicalResult FunctionInterpreter::empty(tensor::EmptyOp op, Operands operands, Results &results) {
  SmallVector<int64_t> shape(op.getType().getShape());
  unsigned next = 0;
  for (int64_t &size : shape)
    if (ShapedType::isDynamic(size))
      size = operands[next++]->ints[0];
  return addResult(op, op.getType(), shape, results);
}

LogicalResult FunctionInterpreter::dim(tensor::DimOp op, Operands operands, Results &results) {
  int64_t index = operands[1]->ints[0];
  if (index < 0 || index >= operands[0]->rank())
    return op.emitError() << "dimension " << index << " is asked of a tensor of rank "
                          << operands[0]->rank();
  results.push_back(Tensor::scalar(op.getType(), operands[0]->shape[index]));
  return success();
}

LogicalResult FunctionInterpreter::castShape(tensor::CastOp op, Operands operands,
                                             Results &results) {
  results.push_back(*operands[0]);
  return checkType([&] { return op.emitError(); }, *operands[0], op.getType(), "the operand");
}

LogicalResult FunctionInterpreter::fromElements(tensor::FromElementsOp op, Operands operands,
                                                Results &results) {
  if (failed(addResult(op, op.getType(), op.getType().getShape(), results)))
    return failure();
  Tensor &result = results.back();
  for (auto [i, element] : llvm::enumerate(operands)) {
    if (!element->ints.empty())
      result.ints[i] = element->ints[0];
    if (!element->floats.empty())
      result.floats[i] = element->floats[0];
  }
  return success();
}

/// `tensor.collapse_shape`, `tensor.expand_shape` and `tensor.reshape`: the same elements in their
/// order.
LogicalResult FunctionInterpreter::reshape(Operation *op, Operands operands, Results &results) {
  const Tensor &source = *operands[0];
  SmallVector<int64_t> shape;
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    for (ArrayRef<int64_t> group : collapse.getReassociationIndices()) {
      shape.push_back(1);
      for (int64_t dim : group) {
        if (dim < 0 || dim >= int64_t(source.shape.size()))
          return op->emitError() << "'reassociation' names dimension " << dim << " of a tensor of "
                                 << source.shape.size() << " dimensions";
        shape.back() *= source.shape[dim];
      }
    }
  } else if (isa<tensor::ReshapeOp>(op)) {
    llvm::append_range(shape, operands[1]->ints);
  } else {
    unsigned next = 1;
    for (int64_t size : cast<tensor::ExpandShapeOp>(op).getStaticOutputShape())
      shape.push_back(ShapedType::isDynamic(size) ? operands[next++]->ints[0] : size);
  }
  if (failed(addResult(op, op->getResult(0).getType(), shape, results)))
    return failure();
  Tensor &result = results.back();
  if (result.size() != source.size())
    return op->emitError() << "a tensor of shape " << spellShape(source.shape)
                           << " has not the elements of one of shape " << spellShape(shape);
  result.floats = source.floats;
  result.ints = source.ints;
  return success();
}

LogicalResult FunctionInterpreter::extractSlice(tensor::ExtractSliceOp op, Operands operands,
                                                Results &results) {
  unsigned next = 1;
  auto resolve = [&](ArrayRef<OpFoldResult> mixed) {
    SmallVector<int64_t> numbers;
    for (OpFoldResult entry : mixed) {
      auto attr = dyn_cast<Attribute>(entry);
      numbers.push_back(attr ? cast<IntegerAttr>(attr).getInt() : operands[next++]->ints[0]);
    }
    return numbers;
  };
  const Tensor &source = *operands[0];
  SmallVector<int64_t> offsets = resolve(op.getMixedOffsets()), sizes = resolve(op.getMixedSizes());
  SmallVector<int64_t> strides = resolve(op.getMixedStrides()), shape;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t last = offsets[dim] + (sizes[dim] - 1) * strides[dim];
    if (sizes[dim] < 0 || (sizes[dim] > 0 && (std::min(offsets[dim], last) < 0 ||
                                              std::max(offsets[dim], last) >= source.shape[dim])))
      return op.emitError() << "the slice leaves the source's shape " << spellShape(source.shape)
                            << " in dimension " << dim;
    if (!dropped[dim])
      shape.push_back(sizes[dim]);
  }
  if (failed(addResult(op, op.getType(), shape, results)))
    return failure();
  Tensor &result = results.back();
  SmallVector<int64_t> point(sizes.size());
  for (size_t i = 0; i < result.size(); ++i) {
    size_t from = 0;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      from = from * source.shape[dim] + offsets[dim] + point[dim] * strides[dim];
    if (result.isFloat())
      result.floats[i] = source.floats[from];
    else
      result.ints[i] = source.ints[from];
    for (int64_t dim = int64_t(sizes.size()) - 1; dim >= 0 && ++point[dim] == sizes[dim]; --dim)
      point[dim] = 0;
  }
  return success();
}

LogicalResult FunctionInterpreter::call(func::CallOp op, Operands operands, Results &results) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee || callee.isExternal())
    return op.emitError() << "the interpreter finds no body for '" << op.getCallee() << "'";
  if (depth > 100)
    return op.emitError("calls go deeper than 100: the interpreter stops here");
  SmallVector<Tensor> arguments;
  for (const Tensor *operand : operands)
    arguments.push_back(*operand);
  FailureOr<SmallVector<Tensor>> returned =
      FunctionInterpreter(options, depth + 1).run(callee, arguments);
  if (failed(returned))
    return failure();
  for (Tensor &tensor : *returned)
    results.push_back(std::move(tensor));
  return success();
}

LogicalResult FunctionInterpreter::dispatch(Operation *op, Operands operands, Results &results) {
  if (options.extension)
    if (OpHandler handler = options.extension(op))
      return handler(op, operands, results);
  auto lookup = [&](Value value) -> const Tensor * {
    auto it = values.find(value);
    return it == values.end() ? nullptr : &it->second;
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<RecurrentOp, GLAOp, LightningAttnOp>(
          [&](Operation *op) { return interpretRecurrence(op, operands, results, options); })
      .Case([&](DeltaRuleOp op) { return interpretDeltaRule(op, operands, results, options); })
      .Case([&](ScanOp op) { return interpretScan(op, operands, results, options); })
      .Case([&](CombineSegmentsOp op) {
        return interpretCombineSegments(op, operands, results, options);
      })
      .Case([&](SegmentStartsOp op) { return interpretSegmentStarts(op, operands, results); })
      .Case([&](ShiftOp op) { return interpretShift(op, operands, results); })
      .Case([&](LastRowsOp op) { return interpretLastRows(op, operands, results); })
      .Case([&](ReadStatesOp op) { return interpretReadStates(op, operands, results); })
      .Case([&](WriteStatesOp op) { return interpretWriteStates(op, operands, results, options); })
      .Case([&](ZeroSkippedOp op) { return interpretZeroSkipped(op, operands, results); })
      .Case<RepeatHeadsOp, FirstHeadsOp>(
          [&](Operation *op) { return interpretHeads(op, operands, results); })
      .Case([&](SumHeadsOp op) { return interpretSumHeads(op, operands, results, options); })
      .Case(
          [&](tile::ProgramOp op) { return interpretTileProgram(op, operands, results, options); })
      .Case([&](tile::ChooseOp op) {
        results.push_back(operands[2]->shape[1] == 1 ? *operands[0] : *operands[1]);
        return success();
      })
      .Case([&](linalg::LinalgOp op) {
        return interpretLinalg(op, operands, results, options, lookup);
      })
      .Case([&](arith::ConstantOp op) { return constant(op, results); })
      .Case([&](tensor::EmptyOp op) { return empty(op, operands, results); })
      .Case([&](tensor::DimOp op) { return dim(op, operands, results); })
      .Case([&](tensor::CastOp op) { return castShape(op, operands, results); })
      .Case([&](tensor::FromElementsOp op) { return fromElements(op, operands, results); })
      .Case<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ReshapeOp>(
          [&](Operation *op) { return reshape(op, operands, results); })
      .Case([&](tensor::ExtractSliceOp op) { return extractSlice(op, operands, results); })
      .Case([&](func::CallOp op) { return call(op, operands, results); })
      .Default([&](Operation *op) { return elementwise(op, operands, results); });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Tensor>> FunctionInterpreter::run(func::FuncOp function,
                                                        ArrayRef<Tensor> arguments) {
  if (function.isExternal())
    return function.emitError() << "'" << function.getName() << "' has no body to interpret";
  if (!function.getBody().hasOneBlock())
    return function.emitError("the interpreter runs functions of one block only");
  if (arguments.size() != function.getNumArguments())
    return function.emitError() << "'" << function.getName() << "' takes "
                                << function.getNumArguments() << " arguments, but was given "
                                << arguments.size();
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (failed(checkType([&] { return function.emitError(); }, argument,
                         function.getArgumentTypes()[i], "argument " + Twine(i))))
      return failure();
    values[function.getArgument(i)] = argument;
  }
  for (Operation &op : function.getBody().front()) {
    SmallVector<const Tensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values.find(operand)->second);
    if (isa<func::ReturnOp>(op)) {
      SmallVector<Tensor> returned;
      for (const Tensor *operand : operands)
        returned.push_back(*operand);
      return returned;
    }
    for (Type type : op.getResultTypes())
      if (!isSupportedElement(getElementTypeOrSelf(type)) ||
          (isa<ShapedType>(type) && !isa<RankedTensorType>(type)))
        return op.emitError() << "the interpreter does not hold values of type " << type
                              << " here: it works on ranked tensors and scalars";
    SmallVector<Tensor> results;
    if (failed(dispatch(&op, operands, results)))
      return failure();
    if (options.observe)
      options.observe(&op, results);
    for (auto [value, result] : llvm::zip_equal(op.getResults(), results))
      values[value] = std::move(result);
  }
  return function.emitError("the interpreter met no 'func.return'");
}

FailureOr<SmallVector<Tensor>> ejk::reference::interpret(func::FuncOp function,
                                                         ArrayRef<Tensor> arguments,
                                                         const Options &options) {
  return FunctionInterpreter(options, 0).run(function, arguments);
}
