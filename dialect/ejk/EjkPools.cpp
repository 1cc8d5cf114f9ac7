//===- EjkPools.cpp - states that a server keeps in a pool ----------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/ShapeCheck.h"

using namespace mlir;
using namespace ejk;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Checks a pool and its states. The states' first dimension is `count`.
static LogicalResult checkStates(Operation *op, ShapeCheck &shapes, Value pool, Value states,
                                 bool valueMajor, StringRef count, StringRef constraint) {
  SmallVector<StringRef> slots{"P", "H"}, own{count, "H"};
  int64_t rank = tensorType(states).getRank();
  if (rank == 3) {
    slots.push_back("C");
    own.push_back("C");
  } else if (rank != 2) {
    slots.append(valueMajor ? std::initializer_list<StringRef>{"V", "K"}
                            : std::initializer_list<StringRef>{"K", "V"});
    own.append({"K", "V"});
  }
  if (valueMajor && rank != 4)
    return op->emitOpError() << "has 'value_major', which is for matrices (" << constraint
                             << "), but its states are " << states.getType();
  if (failed(shapes.check(pool, "pool", slots, constraint)) ||
      failed(shapes.check(states, "states", own, constraint)))
    return failure();
  for (Value tensor : {pool, states})
    if (!ScanOp::getStepType(tensorType(tensor), 2))
      return op->emitOpError() << "pool and states must have static "
                               << (rank == 3 ? "C" : "K and V") << " from 1 to " << kMaxChannels
                               << " (" << constraint << "), but one is " << tensor.getType();
  return success();
}

LogicalResult ReadStatesOp::verify() {
  ShapeCheck shapes(*this);
  LogicalResult indices = getAccepted()
                              ? success(succeeded(shapes.check(getIndex(), "index", {"N", "T"}, "C2")) &&
                                        succeeded(shapes.check(getAccepted(), "accepted", {"N"}, "C2")))
                              : shapes.check(getIndex(), "index", {"N"}, "C2");
  if (failed(indices))
    return failure();
  return checkStates(*this, shapes, getPool(), getStates(), getValueMajor(), "N", "C1");
}

LogicalResult WriteStatesOp::verify() {
  ShapeCheck shapes(*this);
  if (!isPerRow()) {
    if (getCuSeqlens())
      return emitOpError("has 'cu_seqlens', which an index [N,T] alone takes (C3)");
    if (failed(shapes.check(getIndex(), "index", {"N"}, "C1")))
      return failure();
    return checkStates(*this, shapes, getPool(), getStates(), getValueMajor(), "N", "C1");
  }
  if (tensorType(getPool()).getRank() != 4)
    return emitOpError("writes states after each row, which must be matrices (C2), but the pool is ")
           << getPool().getType();
  if (failed(shapes.check(getIndex(), "index", {"N", "T"}, "C2")) ||
      (getCuSeqlens() && failed(shapes.check(getCuSeqlens(), "cu_seqlens", {"N+1"}, "C3"))))
    return failure();
  return checkStates(*this, shapes, getPool(), getStates(), getValueMajor(), "slots", "C2");
}

LogicalResult ZeroSkippedOp::verify() {
  if (getIndices().empty() || getIndices().size() > 2)
    return emitOpError("must have 1 or 2 indices (C2), but has ") << getIndices().size();
  ShapeCheck shapes(*this);
  RankedTensorType rows = tensorType(getRows());
  if (rows.getRank() < 2)
    return emitOpError("must have rows [N,T,…] (C1), but they are ") << rows;
  if (getCuSeqlens()) {
    if (failed(shapes.check(getCuSeqlens(), "cu_seqlens", {"N+1"}, "C1")))
      return failure();
    if (!rows.isDynamicDim(0) && rows.getDimSize(0) != 1)
      return emitOpError("must have rows [1,T,…] with 'cu_seqlens' (C1), but they are ") << rows;
  } else {
    shapes.bind("N", rows.getDimSize(0), "rows");
  }
  for (Value index : getIndices())
    if (failed(shapes.checkEither(index, "indices", {"N"}, {"N", "T'"}, "C2")))
      return failure();
  return success();
}
