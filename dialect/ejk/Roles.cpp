//===- Roles.cpp - what a function's tensors are to its recurrences -------===//
#include "dialect/ejk/Roles.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;

/// The value itself, or what it was widened or broadcast from.
static Value sourceOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::ExtFOp, vector::BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// What `gate` is before it is kept within bounds.
static Value withinBounds(Value gate) {
  while (true) {
    gate = sourceOf(gate);
    Operation *op = gate.getDefiningOp();
    if (!isa_and_nonnull<math::ClampFOp, arith::MaximumFOp, arith::MinimumFOp>(op))
      return gate;
    auto isConstant = [](Value bound) { return matchPattern(sourceOf(bound), m_Constant()); };
    if (!llvm::all_of(op->getOperands().drop_front(), isConstant))
      return gate;
    gate = op->getOperand(0);
  }
}

namespace {
/// The roles of a scan's rows and parameters in its step.
class StepRoles {
public:
  StepRoles(ScanOp scan, Value argument) : scan(scan), argument(argument) {}

  Role find() {
    for (DecayOp decay : scan.getStep().getOps<DecayOp>())
      if (isArgument(withinBounds(decay.getGate())))
        return Role::logDecay;
    findReads();
    Role role = Role::none;
    for (OuterAddOp add : scan.getStep().getOps<OuterAddOp>())
      for (auto [vector, other] :
           {std::pair(add.getValue(), add.getKey()), std::pair(add.getKey(), add.getValue())})
        if (ofReads.contains(vector))
          role = std::max(role, isArgument(other) ? Role::key : roleOnTheWay(vector));
    return role;
  }

private:
  /// Operands of a scan stand in the order of the arguments up to the parameters.
  bool isArgument(Value value) {
    size_t all =
        scan.getSequences().size() + scan.getQueries().size() + scan.getParameters().size();
    auto step = dyn_cast<BlockArgument>(sourceOf(value));
    return step && step.getOwner() == &scan.getStep() && step.getArgNumber() < all &&
           sourceOf(scan->getOperand(step.getArgNumber())) == argument;
  }

  /// What depends on a read, other than states.
  void findReads() {
    for (Operation &op : scan.getStep().without_terminator()) {
      bool isState = isa<OuterAddOp, DecayOp>(op);
      bool depends = isa<ReadOp>(op) ||
                     llvm::any_of(op.getOperands(), [&](Value v) { return ofReads.contains(v); });
      if (depends && !isState)
        ofReads.insert(op.getResults().begin(), op.getResults().end());
    }
  }

  /// From what is added back to the reads that it depends on.
  Role roleOnTheWay(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !ofReads.contains(value) || !seen.insert(op).second)
      return Role::none;
    if (auto read = dyn_cast<ReadOp>(op))
      return isArgument(read.getVector()) ? Role::key : Role::none;
    Role role = Role::none;
    for (Value operand : op->getOperands())
      role = std::max(role, ofReads.contains(operand)                       ? roleOnTheWay(operand)
                            : isa<arith::MulFOp>(op) && isArgument(operand) ? Role::rate
                                                                            : Role::none);
    return role;
  }

  ScanOp scan;
  Value argument;
  llvm::DenseSet<Value> ofReads;
  llvm::DenseSet<Operation *> seen;
};
} // namespace

StringRef ejk::attributeOf(Role role) {
  switch (role) {
  case Role::none:
    return "";
  case Role::logDecay:
    return kLogDecayAttr;
  case Role::key:
    return kKeyAttr;
  case Role::rate:
    return kRateAttr;
  }
}

Role ejk::roleOf(func::FuncOp function, unsigned index) {
  for (Role role : {Role::logDecay, Role::key, Role::rate})
    if (function.getArgAttr(index, attributeOf(role)))
      return role;
  std::string operand = argumentOperand(function, index);
  Role found = operand == "k" ? Role::key : operand == "beta" ? Role::rate : Role::none;
  if (function.isExternal())
    return found;
  Value argument = function.getArgument(index);
  function.walk([&](Operation *op) {
    if (std::optional<Recurrence> r = Recurrence::of(op))
      for (Value gate : {r->g, r->gGamma, r->gk, r->gv})
        if (gate && sourceOf(gate) == argument)
          found = Role::logDecay;
    if (auto scan = dyn_cast<ScanOp>(op))
      if (Role role = StepRoles(scan, argument).find();
          found != Role::logDecay && role != Role::none)
        found = role;
  });
  return found;
}
