//===- EjkPools.cpp - states that a server keeps in a pool ----------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/ShapeCheck.h"

using namespace mlir;
using namespace ejk;

static LogicalResult verifyPool(Operation *op, Value pool, Value index, Value states) {
  ShapeCheck shapes(op);
  if (failed(shapes.check(pool, "pool", {"P", "H", "K", "V"}, "C1")) ||
      failed(shapes.check(index, "index", {"N"}, "C1")) ||
      failed(shapes.check(states, "states", {"N", "H", "K", "V"}, "C1")))
    return failure();
  for (Value tensor : {pool, states})
    if (auto type = cast<RankedTensorType>(tensor.getType()); !ScanOp::getStepType(type, 2))
      return op->emitOpError() << "pool and states must have static K and V from 1 to "
                               << kMaxChannels << " (C1), but one is " << type;
  return success();
}

LogicalResult ReadStatesOp::verify() {
  return verifyPool(*this, getPool(), getIndex(), getStates());
}
LogicalResult WriteStatesOp::verify() {
  return verifyPool(*this, getPool(), getIndex(), getStates());
}
