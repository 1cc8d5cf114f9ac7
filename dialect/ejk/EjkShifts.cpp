//===- EjkShifts.cpp - rows of other steps: the verifiers -----------------===//
#include "dialect/ejk/EjkShifts.h"
#include "dialect/ejk/ShapeCheck.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ejk;

#define GET_OP_CLASSES
#include "dialect/ejk/EjkShifts.cpp.inc"

static int64_t rowsOfEach(Value halo) {
  return cast<RankedTensorType>(halo.getType()).getDimSize(1);
}

/// Checks the rows (C1), their offsets (C4), and the tensors with rows of each sequence, called by
/// their names (`constraint`).
static LogicalResult verifyRows(Operation *op, Value rows, Value cuSeqlens,
                                ArrayRef<std::pair<Value, StringRef>> ofEach,
                                StringRef constraint) {
  ShapeCheck shapes(op);
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<StringRef> letters = {"B", "T", "H", "C"};
  bool isRanked = type.getRank() == 3 || type.getRank() == 4;
  if (!isRanked || !ScanOp::getStepType(type, 3))
    return op->emitOpError() << "the rows must be [B,T,H] or [B,T,H,C], with static C from 1 to "
                             << kMaxChannels << " (C1), but are " << type;
  letters.resize(type.getRank());
  if (failed(shapes.check(rows, "rows", letters, "C1")))
    return failure();
  if (cuSeqlens) {
    if (failed(shapes.check(cuSeqlens, "cu_seqlens", {"N+1"}, "C4")))
      return failure();
    int64_t batch = shapes.size("B"), entries = shapes.size("N+1");
    if (!ShapedType::isDynamic(batch) && batch != 1)
      return op->emitOpError() << "with 'cu_seqlens', B must be 1 (C4), but is " << batch;
    if (!ShapedType::isDynamic(entries)) {
      if (entries < 1)
        return op->emitOpError("'cu_seqlens' must have N+1 entries (C4), but has none");
      shapes.bind("N", entries - 1, "'cu_seqlens'");
    }
  } else {
    shapes.bind("N", shapes.size("B"), "the batch");
  }
  letters[0] = "N", letters[1] = "R";
  for (auto [tensor, name] : ofEach) {
    auto own = cast<RankedTensorType>(tensor.getType());
    if (own.getElementType() != type.getElementType())
      return op->emitOpError() << name << " must have the rows' element type, "
                               << type.getElementType() << " (" << constraint << "), but is "
                               << own;
    if (failed(shapes.check(tensor, name, letters, constraint)))
      return failure();
    if (own.isDynamicDim(1) || own.getDimSize(1) < 1)
      return op->emitOpError() << name << " must have a static number of rows, 1 or more ("
                               << constraint << "), but is " << own;
  }
  return success();
}

LogicalResult ShiftOp::verify() {
  SmallVector<std::pair<Value, StringRef>> halos;
  if (getHalo())
    halos.push_back({getHalo(), "halo"});
  if (failed(verifyRows(*this, getRows(), getCuSeqlens(), halos, "C3")))
    return failure();
  int64_t by = getBy();
  if (by == 0 || by < -kMaxRows || by > kMaxRows)
    return emitOpError() << "'by' must be from " << -kMaxRows << " to " << kMaxRows
                         << " and not 0 (C2), but is " << by;
  if (getHalo() && rowsOfEach(getHalo()) < std::abs(by))
    return emitOpError() << "the halo must have a row for each of the " << std::abs(by)
                         << " steps of 'by' (C3), but has " << rowsOfEach(getHalo());
  return success();
}

LogicalResult LastRowsOp::verify() {
  SmallVector<std::pair<Value, StringRef>> tensors = {{getResult(), "the result"}};
  if (failed(verifyRows(*this, getRows(), getCuSeqlens(), tensors, "C2")))
    return failure();
  if (getHalo() && getHalo().getType() != getType())
    return emitOpError() << "the halo must have the result's type, " << getType()
                         << " (C3), but is " << getHalo().getType();
  int64_t beyond = getBeyond(), most = getHalo() ? 0 : rowsOfEach(getResult()) - 1;
  if (beyond < 0 || beyond > most)
    return emitOpError() << "'beyond' must be from 0 to " << most << (getHalo() ? " with a halo" : "")
                         << " (C5), but is " << beyond;
  return success();
}
