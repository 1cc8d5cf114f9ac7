//===- PrepareTensors.cpp - a kernel for every tensor ----------------------===//
#include "lowering/host/PrepareTensors.h"
#include "dialect/ejk/EjkShifts.h"
#include "dialect/tile/Tile.h"
#include "lowering/kernels/GroupSums.h"
#include "lowering/kernels/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include <functional>

using namespace mlir;
using namespace ejk;

bool ejk::isStorable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : Type();
  return tensor && (isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(element) ||
                    element.isSignlessInteger(32) || element.isSignlessInteger(64));
}

bool ejk::isKernel(Operation *op) {
  return isa_and_nonnull<ScanOp, tile::ProgramOp, tile::ChooseOp, SumHeadsOp, RepeatHeadsOp,
                         FirstHeadsOp, CombineSegmentsOp, SegmentStartsOp, ShiftOp, LastRowsOp,
                         linalg::GenericOp, ReadStatesOp, WriteStatesOp, ZeroSkippedOp>(op);
}

/// Creates an elementwise op on `inputs` with result `type` and the given body.
static linalg::GenericOp createMap(OpBuilder &b, Location loc, RankedTensorType type, Value like,
                                   ValueRange inputs,
                                   llvm::function_ref<Value(OpBuilder &, ValueRange)> body) {
  SmallVector<AffineMap> maps(inputs.size() + 1, b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (type.isDynamicDim(d))
      sizes.push_back(tensor::DimOp::create(b, loc, like, d));
  Value empty = tensor::EmptyOp::create(b, loc, type, sizes);
  return linalg::GenericOp::create(b, loc, type, inputs, empty, maps, loops,
                                   [&](OpBuilder &nested, Location l, ValueRange args) {
                                     linalg::YieldOp::create(nested, l, body(nested, args));
                                   });
}

/// Whether `tensor` says that program `op`, which starts from another's results, skips all heads.
static bool isSkippedWhole(Operation *op, Value tensor) {
  auto program = dyn_cast_or_null<tile::ProgramOp>(op);
  auto fill = program && tensor && program.getSkipped() == tensor
                  ? tensor.getDefiningOp<linalg::FillOp>()
                  : linalg::FillOp();
  return fill && !program.getInto().empty() && matchPattern(fill.value(), m_OneFloat());
}

bool ejk::skipsAll(tile::ProgramOp program) {
  return isSkippedWhole(program, program.getSkipped());
}

bool ejk::isNullStart(Operation *op, Value tensor) {
  if (auto sum = dyn_cast_or_null<SumHeadsOp>(op); sum && isSummedByProgram(sum))
    return sum.getTensor() == tensor;
  if (isSkippedWhole(op, tensor))
    return true;
  auto fill = tensor ? sameMemory(tensor).getDefiningOp<linalg::FillOp>() : linalg::FillOp();
  if (!fill || !matchPattern(fill.value(), m_PosZeroFloat()))
    return false;
  auto isStart = [&](auto scan) {
    return scan.getSegments() && (llvm::is_contained(scan.getInitialStates(), tensor) ||
                                  scan.getRemembered() == tensor);
  };
  if (auto scan = dyn_cast_or_null<ScanOp>(op))
    return isStart(scan);
  auto program = dyn_cast_or_null<tile::ProgramOp>(op);
  return program &&
         (isStart(program) || (program.getSkipped() == tensor && program.getInto().empty()));
}

/// Materialises constants and fills that kernels read from memory, each by a kernel of its own. A
/// linalg op that only starts from one uses its value directly.
static void materializeConstants(func::FuncOp function, llvm::DenseMap<Value, Value> &copied) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    TypedAttr number;
    if (auto fill = dyn_cast<linalg::FillOp>(op))
      matchPattern(fill.value(), m_Constant(&number));
    else if (DenseElementsAttr dense; matchPattern(&op, m_Constant(&dense)) && dense.isSplat())
      number = cast<TypedAttr>(dense.getSplatValue<Attribute>());
    auto type = number ? dyn_cast<RankedTensorType>(op.getResult(0).getType()) : RankedTensorType();
    if (!type)
      continue;
    std::function<bool(OpOperand &)> readsMemory = [&](OpOperand &use) {
      if (auto view = dyn_cast<tensor::ReshapeOp>(use.getOwner()))
        return &use == &view.getSourceMutable() && llvm::any_of(view->getUses(), readsMemory);
      auto generic = dyn_cast<linalg::GenericOp>(use.getOwner());
      return !isa<tensor::DimOp>(use.getOwner()) && !(generic && generic.isDpsInit(&use)) &&
             !isNullStart(use.getOwner(), use.get());
    };
    if (llvm::none_of(op.getResult(0).getUses(), readsMemory))
      continue;
    OpBuilder after(&op);
    after.setInsertionPointAfter(&op);
    auto makeFilled = [&] {
      auto filled = createMap(after, op.getLoc(), type, op.getResult(0), {},
                              [&](OpBuilder &nested, ValueRange) -> Value {
                                return arith::ConstantOp::create(nested, op.getLoc(), number);
                              });
      copied[filled.getResult(0)] = op.getResult(0);
      return filled.getResult(0);
    };
    // A kernel counts turns in this memory, so each has its own.
    for (OpOperand &use : llvm::make_early_inc_range(op.getResult(0).getUses()))
      if (auto program = dyn_cast<tile::ProgramOp>(use.getOwner());
          program && program.getTurns() == use.get())
        use.set(makeFilled());
    if (llvm::any_of(op.getResult(0).getUses(), readsMemory))
      op.getResult(0).replaceUsesWithIf(makeFilled(), readsMemory);
  }
}

/// Ensures that a different kernel writes each returned value. An argument, or a value that is
/// returned twice, is copied.
static LogicalResult copyReturned(func::FuncOp function, llvm::DenseMap<Value, Value> &copied) {
  Operation *ret = function.getBody().front().getTerminator();
  llvm::DenseSet<Value> seen;
  OpBuilder copies(ret);
  for (OpOperand &operand : ret->getOpOperands()) {
    Value value = operand.get();
    if (!isStorable(value.getType()))
      return ret->emitError() << "result " << operand.getOperandNumber() << " is "
                              << value.getType() << "; a compiled function returns " << kStorable;
    auto type = cast<RankedTensorType>(value.getType());
    Value memory = sameMemory(value);
    if (isKernel(memory.getDefiningOp()) && seen.insert(memory).second)
      continue;
    auto copy = createMap(copies, ret->getLoc(), type, value, value,
                          [](OpBuilder &, ValueRange args) { return args.front(); });
    operand.set(copy.getResult(0));
    copied[copy.getResult(0)] = value;
  }
  return success();
}

LogicalResult ejk::prepareTensors(func::FuncOp function, llvm::DenseMap<Value, Value> &copied) {
  materializeConstants(function, copied);
  return copyReturned(function, copied);
}
