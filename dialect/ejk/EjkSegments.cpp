//===- EjkSegments.cpp - states of segments, between scans: the verifier --===//
#include "dialect/ejk/Ejk.h"

using namespace mlir;
using namespace ejk;

LogicalResult CombineSegmentsOp::verify() {
  auto shapeOf = [](Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); };
  ArrayRef<int64_t> totals = shapeOf(getTotals()), transitions = shapeOf(getTransitions());
  auto agree = [](int64_t a, int64_t b) {
    return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
  };
  if (totals.size() != 4 || transitions.size() != 4 || ShapedType::isDynamicShape(totals.drop_front(2)) ||
      !agree(totals[0], transitions[0]) || !agree(totals[1], transitions[1]) ||
      transitions[2] != totals[2] || transitions[3] != totals[2])
    return emitOpError() << "the totals must be [S,H,K,V] and the transitions [S,H,K,K], with "
                            "static K and V (C1), but they are "
                         << getTotals().getType() << " and " << getTransitions().getType();
  if (Value remembered = getRemembered()) {
    ArrayRef<int64_t> sizes = shapeOf(remembered);
    if (sizes.size() != 2 || !agree(sizes[0], totals[0]) || !agree(sizes[1], totals[1]))
      return emitOpError() << "'remembered' must be [S,H] (C3), but is " << remembered.getType();
  }
  auto check = [&](Value states, StringRef name, bool bySegment) -> LogicalResult {
    ArrayRef<int64_t> shape = shapeOf(states);
    if (shape.size() == 4 && (!bySegment || agree(shape[0], totals[0])) &&
        agree(shape[1], totals[1]) && shape.drop_front(2) == totals.drop_front(2))
      return success();
    return emitOpError() << "the " << name << " must have the sizes of the totals, "
                         << getTotals().getType() << " (C2), but is " << states.getType();
  };
  if (getInitial() && failed(check(getInitial(), "initial state", /*bySegment=*/false)))
    return failure();
  if (failed(check(getStarts(), "tensor of starts", /*bySegment=*/true)))
    return failure();
  return check(getFinalState(), "final state", /*bySegment=*/false);
}

LogicalResult SegmentStartsOp::verify() {
  auto shapeOf = [](Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); };
  auto agree = [](int64_t a, int64_t b) {
    return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
  };
  if (int64_t(getEvery()) < 1 || int64_t(getEvery()) > kMaxRows)
    return emitOpError() << "'every' must be from 1 to " << kMaxRows << " (C3), but is "
                         << int64_t(getEvery());
  ArrayRef<int64_t> saves = shapeOf(getSaves());
  if (saves.size() != 4 || ShapedType::isDynamicShape(saves.drop_front(2)))
    return emitOpError()
           << "the saved states must be [slots,H,K,V], with static K and V (C1), but are "
           << getSaves().getType();
  if (shapeOf(getLike()).size() < 3)
    return emitOpError() << "'like' must be a sequence, but is " << getLike().getType();
  auto check = [&](Value states, StringRef name, int64_t count) -> LogicalResult {
    ArrayRef<int64_t> shape = shapeOf(states);
    if (shape.size() == 4 && agree(shape[0], count) && agree(shape[1], saves[1]) &&
        shape.drop_front(2) == saves.drop_front(2))
      return success();
    return emitOpError() << "the " << name << " must have the sizes of the saved states, "
                         << getSaves().getType() << ", for each of its own (C2), but is "
                         << states.getType();
  };
  int64_t sequences = ScanOp::countStates(getLike(), getCuSeqlens(), {});
  if (getInitial() && failed(check(getInitial(), "initial state", sequences)))
    return failure();
  return check(getStarts(), "tensor of starts",
               ScanOp::countStates(getLike(), getCuSeqlens(), getSegments()));
}
