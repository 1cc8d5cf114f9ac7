//===- Alignment.cpp - alignment of indices and copies ---------------------===//
#include "lowering/layout/Alignment.h"
#include "lowering/kernels/KernelBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

bool ejk::isMultipleOf(Value value, int64_t factor) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue() % factor == 0;
  Operation *def = value.getDefiningOp();
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(def))
    return isMultipleOf(def->getOperand(0), factor) && isMultipleOf(def->getOperand(1), factor);
  if (isa_and_nonnull<arith::MulIOp>(def))
    return isMultipleOf(def->getOperand(0), factor) || isMultipleOf(def->getOperand(1), factor);
  return false;
}

unsigned ejk::copyBytes(RowsType rows, VectorType tile, Value channel) {
  auto row = dyn_cast<VectorType>(rows.getRow());
  unsigned bytes = KernelBuilder::bytesOf(getElementTypeOrSelf(rows.getRow()));
  if (tile.getRank() == 1)
    return bytes;
  unsigned channels = row.getDimSize(0), width = 16;
  while (width > bytes && (channels * bytes % width != 0 || !isMultipleOf(channel, width / bytes)))
    width /= 2;
  return width;
}
