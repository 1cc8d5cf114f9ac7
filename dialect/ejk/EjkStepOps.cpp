//===- EjkStepOps.cpp - ops of a step on its state ------------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/EjkStep.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Step ops
//===----------------------------------------------------------------------===//

static int64_t sizeAlong(Value state, Axis axis) {
  return cast<VectorType>(state.getType()).getDimSize(axis == Axis::key ? 0 : 1);
}

LogicalResult DecayOp::verify() {
  Type gate = getGate().getType();
  if (getAxis() == Axis::head) {
    if (!gate.isF32())
      return emitOpError() << "a gate along head must be f32 (C1), but is " << gate;
    return success();
  }
  auto wanted = VectorType::get({sizeAlong(getState(), getAxis())}, Float32Type::get(getContext()));
  if (gate != wanted)
    return emitOpError() << "a gate along " << stringifyAxis(getAxis()) << " must be " << wanted
                         << " (C1), but is " << gate;
  return success();
}

LogicalResult OuterAddOp::verify() {
  auto state = cast<VectorType>(getState().getType());
  int64_t k = cast<VectorType>(getKey().getType()).getDimSize(0);
  int64_t v = cast<VectorType>(getValue().getType()).getDimSize(0);
  if (state.getDimSize(0) != k || state.getDimSize(1) != v)
    return emitOpError() << "key and value must have the state's sizes " << state.getDimSize(0)
                         << " and " << state.getDimSize(1) << " (C1), but have " << k << " and "
                         << v;
  return success();
}

LogicalResult ReadOp::verify() {
  if (getAxis() == Axis::head)
    return emitOpError("must read along key or value (C1), not head");
  int64_t found = cast<VectorType>(getVector().getType()).getDimSize(0);
  int64_t wanted = sizeAlong(getState(), getAxis());
  if (found != wanted)
    return emitOpError() << "the vector must have the state's size along "
                         << stringifyAxis(getAxis()) << ", " << wanted << " (C1), but has "
                         << found;
  return success();
}

LogicalResult GateGradientOp::verify() {
  Type gate = getGate().getType();
  if (isa<VectorType>(gate) && gate != getGradient().getType())
    return emitOpError() << "the gate must be a number or of the gradient's type, "
                         << getGradient().getType() << " (C1), but is " << gate;
  return success();
}

LogicalResult CheckpointOp::verify() {
  auto state = cast<VectorType>(getState().getType());
  auto vector = dyn_cast<VectorType>(getVector().getType());
  if (getAxis() == Axis::head) {
    if (vector)
      return emitOpError() << "along head, what it replaces must be f32 (C1), but is " << vector;
  } else if (int64_t wanted = state.getDimSize(getAxis() == Axis::key ? 1 : 0);
             !vector || vector.getDimSize(0) != wanted) {
    return emitOpError() << "the vector must have the state's other size, " << wanted
                         << " (C1), but is " << getVector().getType();
  }
  auto scan = cast<ScanOp>((*this)->getParentOp());
  auto arg = dyn_cast<BlockArgument>(getSaved());
  // The step's arguments may not have been counted yet.
  size_t first =
      scan.getSequences().size() + scan.getQueries().size() + scan.getParameters().size();
  if (!arg || arg.getOwner() != &scan.getStep() || arg.getArgNumber() < first ||
      arg.getArgNumber() >= first + scan.getSavedStates().size() ||
      cast<VectorType>(arg.getType()).getShape() != state.getShape())
    return emitOpError("'with' must be one of the scan's saved states, of the state's shape (C2)");
  return success();
}

LogicalResult ReadOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                       Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto state = dyn_cast<VectorType>(adaptor.getState().getType());
  if (!state || state.getRank() != 2)
    return emitOptionalError(location, "'ejk.read' needs a K×V state");
  types.push_back(VectorType::get({state.getDimSize(adaptor.getAxis() == Axis::key ? 1 : 0)},
                                  state.getElementType()));
  return success();
}
