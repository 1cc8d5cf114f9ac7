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

/// Whether the user reads rows by their stride, or nothing but sizes.
static bool readsByRow(OpOperand &use) {
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case([](tensor::DimOp) { return true; })
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

bool ejk::hasRowStride(Value tensor) {
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  return isa<BlockArgument>(tensor) && type && (type.getRank() == 3 || type.getRank() == 4) &&
         isa<FloatType>(type.getElementType()) && !tensor.use_empty() &&
         llvm::all_of(tensor.getUses(), readsByRow);
}
