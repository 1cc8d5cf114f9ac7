//===- EjkHeads.cpp - heads of a group, between scans: the verifiers ------===//
#include "dialect/ejk/Ejk.h"

using namespace mlir;
using namespace ejk;

LogicalResult SumHeadsOp::verify() {
  auto from = cast<RankedTensorType>(getTensor().getType());
  auto to = cast<RankedTensorType>(getLike().getType());
  int64_t dim = getDim();
  if (from.getRank() != to.getRank())
    return emitOpError() << "the tensor and 'like' must have one rank (C1), but are " << from
                         << " and " << to;
  if (dim < 0 || dim >= from.getRank())
    return emitOpError() << "'dim' must be from 0 to " << from.getRank() - 1 << " (C1), but is "
                         << dim;
  for (int64_t d = 0; d < from.getRank(); ++d) {
    int64_t a = from.getDimSize(d), b = to.getDimSize(d);
    if (ShapedType::isDynamic(a) || ShapedType::isDynamic(b))
      continue;
    if (d != dim && a != b)
      return emitOpError() << "the tensor and 'like' must agree in dimension " << d
                           << " (C1), but have " << a << " and " << b;
    if (d == dim && (b == 0 || a % b != 0))
      return emitOpError() << "'like' must have a number of heads that divides the tensor's (C2), "
                              "but they are "
                           << b << " and " << a;
  }
  if (cast<RankedTensorType>(getType()).getShape() != to.getShape())
    return emitOpError() << "the result must have the shape of 'like', " << to << " (C3), but is "
                         << getType();
  return success();
}

/// Checks states that become `result`, which has as many heads as `rows` has in dimension `dim`.
static LogicalResult verifyHeads(Operation *op, Value states, Value rows, int64_t dim, Value result,
                                 bool repeats) {
  auto from = cast<RankedTensorType>(states.getType()),
       to = cast<RankedTensorType>(result.getType());
  auto like = cast<RankedTensorType>(rows.getType());
  if (from.getRank() < 2 || from.getRank() > 4)
    return op->emitOpError() << "the states must be of rank 2 to 4 (C1), but are " << from;
  if (dim < 0 || dim >= like.getRank())
    return op->emitOpError() << "'dim' must be from 0 to " << like.getRank() - 1 << " (C1), but is "
                             << dim;
  auto differ = [](int64_t a, int64_t b) {
    return a != b && !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b);
  };
  if (to.getRank() != from.getRank() || differ(to.getDimSize(1), like.getDimSize(dim)))
    return op->emitOpError()
           << "the result must have the states' rank and the heads of 'like' (C3), " << like
           << ", but is " << to;
  for (int64_t d = 0; d < from.getRank(); ++d)
    if (d != 1 && differ(from.getDimSize(d), to.getDimSize(d)))
      return op->emitOpError() << "the result must have the states' size in dimension " << d
                               << " (C3), " << from << ", but is " << to;
  int64_t few = (repeats ? from : to).getDimSize(1), many = (repeats ? to : from).getDimSize(1);
  if (!ShapedType::isDynamic(few) && !ShapedType::isDynamic(many) && (few == 0 || many % few))
    return op->emitOpError() << "the states' heads must divide the query heads (C2), but they are "
                             << few << " and " << many;
  return success();
}

LogicalResult RepeatHeadsOp::verify() {
  return verifyHeads(*this, getStates(), getLike(), getDim(), getResult(), /*repeats=*/true);
}
LogicalResult FirstHeadsOp::verify() {
  return verifyHeads(*this, getStates(), getLike(), getDim(), getResult(), /*repeats=*/false);
}
