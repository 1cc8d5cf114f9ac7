//===- EjkSums.cpp - sums over heads: the verifier ------------------------===//
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
