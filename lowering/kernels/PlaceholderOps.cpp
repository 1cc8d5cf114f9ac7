//===- PlaceholderOps.cpp - ops of a kernel that is only measured -----------===//
#include "lowering/kernels/PlaceholderOps.h"
#include "mlir/IR/OpDefinition.h"

using namespace mlir;
using namespace ejk;

PlaceholderOps::~PlaceholderOps() {
  for (auto &[like, op] : ops)
    op->destroy();
}

Operation *PlaceholderOps::get(OperationState &state) {
  if (!state.regions.empty() || state.types.size() > 1 ||
      state.name.hasTrait<OpTrait::IsTerminator>())
    return nullptr;
  const void *type = state.types.empty() ? nullptr : state.types.front().getAsOpaquePointer();
  Operation *&op = ops[{state.name.getAsOpaquePointer(), type}];
  if (!op) {
    state.operands.clear();
    op = Operation::create(state);
    if (op->hasTrait<OpTrait::ConstantLike>())
      constants[op->getResult(0).getType()] = op->getResult(0);
  }
  return op;
}
