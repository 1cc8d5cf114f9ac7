//===- ShiftedRows.cpp - rows that a scan's kernel loads elsewhere --------===//
#include "lowering/kernels/ShiftedRows.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

ShiftOp ejk::shiftOfRows(Operation *user, Value rows) {
  auto shift = rows.getDefiningOp<ShiftOp>();
  if (!shift || shift.getZeros())
    return {};
  if (auto scan = dyn_cast<ScanOp>(user)) {
    bool isRow = llvm::is_contained(scan.getSequences(), rows) ||
                 llvm::is_contained(scan.getQueries(), rows);
    return isRow && scan.getCuSeqlens() == shift.getCuSeqlens() ? shift : ShiftOp();
  }
  auto program = dyn_cast<tile::ProgramOp>(user);
  bool isRow = program && llvm::is_contained(program.getSequences(), rows);
  return isRow && program.getCuSeqlens() == shift.getCuSeqlens() ? shift : ShiftOp();
}

Value ejk::loadedTensor(Operation *user, Value rows) {
  ShiftOp shift = shiftOfRows(user, rows);
  return shift ? shift.getRows() : rows;
}

bool ejk::isDoneByLoads(ShiftOp shift) {
  Value rows = shift.getResult();
  return llvm::all_of(rows.getUsers(), [&](Operation *user) {
    if (auto choose = dyn_cast<tile::ChooseOp>(user))
      return choose.getSingle() != rows && choose.getSeveral() != rows;
    return isa<tensor::DimOp>(user) || bool(shiftOfRows(user, rows));
  });
}

bool ejk::hasShiftedRows(Operation *op) {
  auto scan = dyn_cast<ScanOp>(op);
  return llvm::any_of(op->getOperands(), [&](Value v) { return bool(shiftOfRows(op, v)); }) ||
         (scan && !lastRowsOf(scan).empty());
}

ScanOp ejk::scanOfLastRows(LastRowsOp last) {
  if (last.getCuSeqlens() || last.getZeros() || last.getBeyond())
    return {};
  // The first of the block: each result has one writer. A kernel leaves out sequences that have no
  // state in a pool.
  ScanOp first;
  auto visit = [&](Value rows) {
    for (Operation *user : rows.getUsers())
      if (auto scan = dyn_cast<ScanOp>(user);
          scan && scan->getBlock() == last->getBlock() && !scan.getCuSeqlens() &&
          !scan.getSegments() && !readsPool(scan) &&
          llvm::is_contained(scan.getSequences(), rows) && (!first || scan->isBeforeInBlock(first)))
        first = scan;
  };
  visit(last.getRows());
  return first;
}

SmallVector<LastRowsOp> ejk::lastRowsOf(ScanOp scan) {
  llvm::SetVector<LastRowsOp> found;
  for (Value rows : scan.getSequences())
    for (Operation *user : rows.getUsers())
      if (auto last = dyn_cast<LastRowsOp>(user); last && scanOfLastRows(last) == scan)
        found.insert(last);
  return found.takeVector();
}

ShiftedRow ShiftedRow::of(KernelBuilder &b, ShiftOp shift, Value row, Value position,
                          Value sequence, Value length) {
  int64_t by = shift.getBy();
  Value there = b.sub(position, by);
  ShiftedRow result;
  result.inside = by > 0 ? b.less(b.i64(-1), there) : b.less(there, length);
  result.row = b.sub(row, by);
  if (Value halo = shift.getHalo()) {
    int64_t rows = cast<RankedTensorType>(halo.getType()).getDimSize(1);
    Value inHalo = by > 0 ? b.add(there, rows) : b.sub(there, length);
    result.haloRow = b.add(b.mul(sequence, rows), inHalo);
  }
  return result;
}
