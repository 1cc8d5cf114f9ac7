//===- RowStrides.cpp - inputs whose rows lie apart -----------------------===//
#include "lowering/kernels/RowStrides.h"
#include "dialect/ejk/EjkShifts.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;

/// Whether `use` is one of `operands`.
static bool isAmong(OpOperand &use, OperandRange operands) {
  unsigned first = operands.getBeginOperandIndex(), number = use.getOperandNumber();
  return number >= first && number < first + operands.size();
}

/// Whether rows of `reshape` are those of its source.
static bool keepsRows(tensor::ReshapeOp reshape) {
  Value source = reshape.getSource();
  auto shape = reshape.getShape().getDefiningOp<tensor::FromElementsOp>();
  auto from = dyn_cast<RankedTensorType>(source.getType()),
       to = dyn_cast<RankedTensorType>(reshape.getType());
  if (!from || !to || std::min(from.getRank(), to.getRank()) <= int64_t(kRowDim))
    return false;
  return llvm::all_of(llvm::seq(kRowDim + 1), [&](unsigned dim) {
    if (!from.isDynamicDim(dim))
      return from.getDimSize(dim) == to.getDimSize(dim);
    auto size = shape ? shape.getElements()[dim].getDefiningOp<tensor::DimOp>() : tensor::DimOp();
    return size && size.getSource() == source && size.getConstantIndex() == int64_t(dim);
  });
}

Value ejk::rowsOf(Value tensor) {
  auto reshape = tensor.getDefiningOp<tensor::ReshapeOp>();
  return reshape && keepsRows(reshape) ? rowsOf(reshape.getSource()) : tensor;
}

static bool areReadByRow(Value tensor);

/// Whether the user reads rows by their stride, or nothing but sizes.
static bool readsByRow(OpOperand &use) {
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case([](tensor::DimOp) { return true; })
      .Case([](tensor::ReshapeOp op) { return keepsRows(op) && areReadByRow(op.getResult()); })
      .Case([&](ScanOp scan) {
        return isAmong(use, scan.getSequences()) || isAmong(use, scan.getQueries());
      })
      .Case([&](tile::ProgramOp program) { return isAmong(use, program.getSequences()); })
      .Case([&](ShiftOp shift) { return &use == &shift.getRowsMutable(); })
      .Case([&](LastRowsOp last) { return &use == &last.getRowsMutable(); })
      .Case([&](tile::ChooseOp choose) { return &use == &choose.getRowsMutable(); })
      .Case<SumHeadsOp, RepeatHeadsOp, FirstHeadsOp, CombineSegmentsOp, SegmentStartsOp>(
          [&](auto op) { return &use == &op.getLikeMutable(); })
      .Default(false);
}

static bool areReadByRow(Value tensor) { return llvm::all_of(tensor.getUses(), readsByRow); }

bool ejk::hasRowStride(Value tensor) {
  tensor = rowsOf(tensor);
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  return isa<BlockArgument>(tensor) && type && (type.getRank() == 3 || type.getRank() == 4) &&
         isa<FloatType>(type.getElementType()) && !tensor.use_empty() && areReadByRow(tensor);
}
