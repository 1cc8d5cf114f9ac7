//===- Linalg.cpp - structured ops on tensors -----------------------------===//
#include "dialect/reference/Constants.h"
#include "dialect/reference/Elementwise.h"
#include "dialect/reference/Handlers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// Values of the body: one element each, floats and integers separate.
struct Cells {
  std::vector<double> floats;
  std::vector<int64_t> ints;
};
struct Cell {
  bool isInt;
  size_t index;
  Row in(Cells &cells) const {
    return isInt ? Row{nullptr, &cells.ints[index]} : Row{&cells.floats[index], nullptr};
  }
};

/// The body of an op, compiled once and run for every point of the loops.
class Body {
public:
  static FailureOr<Body> compile(linalg::LinalgOp op, Precision precision,
                                 llvm::function_ref<const Tensor *(Value)> lookup);
  void run(ArrayRef<int64_t> point) {
    for (auto [cell, dim] : indices)
      cells.ints[cell.index] = point[dim];
    for (const auto &step : steps)
      step(cells);
  }

  Cells cells;
  SmallVector<Cell> arguments, yielded;

private:
  Cell allocate(Type type) {
    bool isInt = !isa<FloatType>(type);
    size_t index = isInt ? cells.ints.size() : cells.floats.size();
    isInt ? cells.ints.push_back(0) : cells.floats.push_back(0);
    return {isInt, index};
  }
  void store(Cell cell, const Tensor &scalar) {
    if (cell.isInt)
      cells.ints[cell.index] = scalar.ints[0];
    else
      cells.floats[cell.index] = scalar.floats[0];
  }
  std::vector<std::function<void(Cells &)>> steps;
  std::vector<std::pair<Cell, unsigned>> indices; // linalg.index
};
} // namespace

FailureOr<Body> Body::compile(linalg::LinalgOp op, Precision precision,
                              llvm::function_ref<const Tensor *(Value)> lookup) {
  Body body;
  llvm::DenseMap<Value, Cell> cellOf;
  Block *block = op.getBlock();
  for (Value argument : block->getArguments()) {
    body.arguments.push_back(body.allocate(argument.getType()));
    cellOf.try_emplace(argument, body.arguments.back());
  }
  auto cell = [&](Value value) -> std::optional<Cell> {
    auto it = cellOf.find(value);
    if (it != cellOf.end())
      return it->second;
    const Tensor *outside = lookup(value);
    if (!outside || outside->rank() != 0)
      return std::nullopt;
    Cell made = body.allocate(value.getType());
    body.store(made, *outside);
    cellOf.try_emplace(value, made);
    return made;
  };
  for (Operation &inner : block->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      Cell made = body.allocate(index.getType());
      cellOf.try_emplace(index, made);
      body.indices.push_back({made, unsigned(index.getDim())});
      continue;
    }
    if (isa<arith::ConstantOp>(inner)) {
      FailureOr<Tensor> value = constantValue(&inner, precision);
      if (failed(value))
        return failure();
      Cell made = body.allocate(value->element);
      body.store(made, *value);
      cellOf.try_emplace(inner.getResult(0), made);
      continue;
    }
    RowKernel kernel = elementwiseKernel(&inner, precision);
    if (!kernel || isa<ShapedType>(inner.getResult(0).getType()))
      return unknownOp(&inner);
    SmallVector<Cell> operands;
    for (Value operand : inner.getOperands()) {
      std::optional<Cell> found = cell(operand);
      if (!found)
        return unknownOp(&inner);
      operands.push_back(*found);
    }
    Cell result = body.allocate(inner.getResult(0).getType());
    cellOf.try_emplace(inner.getResult(0), result);
    body.steps.push_back([=](Cells &cells) {
      Row rows[4];
      for (size_t i = 0; i < operands.size(); ++i)
        rows[i] = operands[i].in(cells);
      kernel(rows, result.in(cells), 1);
    });
  }
  for (Value value : block->getTerminator()->getOperands()) {
    std::optional<Cell> found = cell(value);
    if (!found)
      return unknownOp(block->getTerminator());
    body.yielded.push_back(*found);
  }
  return body;
}

namespace {
/// How the loops index an operand.
struct Access {
  const Tensor *tensor;
  AffineMap map;
  SmallVector<int64_t> strides; // of the loops, when `linear`
  bool linear = true;

  /// The element at a point; null if it is outside the tensor.
  std::optional<size_t> offset(ArrayRef<int64_t> point) const {
    int64_t offset = 0;
    if (linear) {
      for (size_t i = 0; i < point.size(); ++i)
        offset += strides[i] * point[i];
      return offset;
    }
    SmallVector<int64_t> index = map.compose(point);
    for (size_t dim = 0; dim < index.size(); ++dim) {
      if (index[dim] < 0 || index[dim] >= tensor->shape[dim])
        return std::nullopt;
      offset = offset * tensor->shape[dim] + index[dim];
    }
    return offset;
  }
};
} // namespace

static Access makeAccess(const Tensor &tensor, AffineMap map) {
  Access access{&tensor, map, SmallVector<int64_t>(map.getNumDims()), true};
  int64_t stride = 1;
  for (int64_t dim = tensor.rank() - 1; dim >= 0; --dim) {
    if (auto loop = dyn_cast<AffineDimExpr>(map.getResult(dim)))
      access.strides[loop.getPosition()] += stride;
    else
      access.linear = false;
    stride *= tensor.shape[dim];
  }
  return access;
}

/// The sizes of the loops, from operands that a single loop indexes.
static FailureOr<SmallVector<int64_t>> loopSizes(linalg::LinalgOp op, Operands operands) {
  SmallVector<int64_t> sizes(op.getNumLoops(), -1);
  SmallVector<size_t> from(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    size_t number = operand.getOperandNumber();
    for (auto [dim, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
      auto loop = dyn_cast<AffineDimExpr>(expr);
      if (!loop)
        continue;
      int64_t &size = sizes[loop.getPosition()], found = operands[number]->shape[dim];
      if (size >= 0 && size != found)
        return op->emitError() << "operand " << number << " must have size " << size
                               << " in dimension " << dim << ", as operand "
                               << from[loop.getPosition()] << " has it, but its shape is "
                               << spellShape(operands[number]->shape);
      size = found;
      from[loop.getPosition()] = number;
    }
  }
  for (auto [loop, size] : llvm::enumerate(sizes))
    if (size < 0)
      return op->emitError() << "the interpreter cannot tell the size of loop " << loop
                             << ": no operand is indexed by it alone";
  return sizes;
}

LogicalResult ejk::reference::interpretLinalg(linalg::LinalgOp op, Operands operands,
                                              Results &results, const Options &options,
                                              llvm::function_ref<const Tensor *(Value)> lookup) {
  if (!op.hasPureTensorSemantics())
    return op->emitError("the interpreter runs linalg on tensors only, not on memrefs");
  FailureOr<SmallVector<int64_t>> sizes = loopSizes(op, operands);
  if (failed(sizes))
    return failure();
  FailureOr<Body> body = Body::compile(op, options.precision, lookup);
  if (failed(body))
    return failure();

  size_t numInits = op.getNumDpsInits(), firstInit = operands.size() - numInits;
  for (const Tensor *init : operands.drop_front(firstInit))
    results.push_back(*init);
  SmallVector<Access> accesses;
  for (OpOperand &operand : op->getOpOperands()) {
    size_t number = operand.getOperandNumber();
    const Tensor &tensor = number < firstInit ? *operands[number] : results[number - firstInit];
    accesses.push_back(makeAccess(tensor, op.getMatchingIndexingMap(&operand)));
  }
  if (llvm::is_contained(*sizes, 0))
    return success();
  SmallVector<int64_t> point(sizes->size());
  SmallVector<size_t> offsets(accesses.size());
  while (true) {
    for (auto [i, access] : llvm::enumerate(accesses)) {
      std::optional<size_t> offset = access.offset(point);
      if (!offset)
        return op->emitError() << "operand " << i << " is read outside its shape "
                               << spellShape(access.tensor->shape) << ", at point "
                               << spellShape(point) << " of the loops";
      offsets[i] = *offset;
      Cell cell = body->arguments[i];
      if (cell.isInt)
        body->cells.ints[cell.index] = access.tensor->ints[*offset];
      else
        body->cells.floats[cell.index] = access.tensor->floats[*offset];
    }
    body->run(point);
    for (size_t i = 0; i < numInits; ++i) {
      Cell cell = body->yielded[i];
      if (cell.isInt)
        results[i].ints[offsets[firstInit + i]] = body->cells.ints[cell.index];
      else
        results[i].floats[offsets[firstInit + i]] = body->cells.floats[cell.index];
    }
    // The next point; the last loop varies fastest.
    int64_t loop = int64_t(point.size()) - 1;
    while (loop >= 0 && ++point[loop] == (*sizes)[loop])
      point[loop--] = 0;
    if (loop < 0)
      return success();
  }
}
