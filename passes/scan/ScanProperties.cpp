//===- ScanProperties.cpp - properties of a scan's step --------------------===//
#include "passes/scan/ScanProperties.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Attributes.h"
#include "dialect/ejk/Searches.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "passes/FloatBounds.h"
#include "passes/scan/SideReads.h"
#include "llvm/ADT/DenseSet.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

bool ejk::isMatrix(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() == 2;
}

int64_t ejk::largestMatrixState(ScanOp scan) {
  int64_t largest = 0;
  for (Value state : llvm::make_filter_range(scan.getStateArgs(), isMatrix))
    largest = std::max(largest, cast<VectorType>(state.getType()).getNumElements());
  return largest;
}

bool ejk::isConstantInTime(ScanOp scan, Value value) {
  return !meetsAmongOperands(value, [&](Value part) {
    if (auto arg = dyn_cast<BlockArgument>(part))
      return llvm::is_contained(scan.getParameterArgs(), arg) ? Met::nothing : Met::wanted;
    Operation *op = part.getDefiningOp();
    return isa<StepIndexOp>(op) || op->getNumRegions() ? Met::wanted : Met::more;
  });
}

bool ejk::isSavedRead(Value rows) {
  auto arg = dyn_cast<BlockArgument>(rows);
  auto function = arg ? dyn_cast<FunctionOpInterface>(arg.getOwner()->getParentOp()) : nullptr;
  return function && arg.getOwner() == &function.getFunctionBody().front() &&
         function.getArgAttr(arg.getArgNumber(), kSavedReadAttr);
}

bool ejk::isInTwoTerms(Operation *op) {
  if (op->hasAttr(kTwoTermsAttr))
    return true;
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    function = op->getParentOfType<FunctionOpInterface>();
  return function && function->hasAttr(kTwoTermsAttr);
}

bool ejk::mayForget(ScanOp scan, double gate) {
  FloatBounds bounds;
  return gate < 0 && correctsState(scan) &&
         llvm::any_of(scan.getStep().getOps<DecayOp>(), [&](DecayOp decay) {
           double least = bounds.of(decay.getGate()).least;
           return std::isfinite(least) && least <= gate;
         });
}

bool ejk::correctsState(ScanOp scan) {
  auto dependsOnRead = [&](Value value) {
    SmallVector<Value> open = {value};
    llvm::DenseSet<Value> seen;
    while (!open.empty()) {
      Operation *op = open.pop_back_val().getDefiningOp();
      if (isa_and_present<ReadOp>(op))
        return true;
      if (op)
        for (Value operand : op->getOperands())
          if (!isa<DecayOp, OuterAddOp>(op) && seen.insert(operand).second)
            open.push_back(operand);
    }
    return false;
  };
  return llvm::any_of(scan.getStep(), [&](Operation &op) {
    if (auto pair = dyn_cast<CancellingPairOp>(op))
      return pair.getCorrects();
    auto add = dyn_cast<OuterAddOp>(op);
    return add &&
           (add.getCorrects() || dependsOnRead(add.getKey()) || dependsOnRead(add.getValue()));
  });
}

Correcting ejk::findCorrecting(Operation *op) {
  Correcting found;
  op->walk([&](ScanOp scan) {
    if (correctsState(scan))
      found.functions.insert(scan->getParentOp());
  });
  return found;
}

DecayClass ejk::getDecayClass(ScanOp scan) {
  bool any = false, key = false, value = false, constant = true;
  scan.getBody().walk([&](DecayOp decay) {
    any = true;
    key |= decay.getAxis() == Axis::key;
    value |= decay.getAxis() == Axis::value;
    constant &= isConstantInTime(scan, decay.getGate());
  });
  if (key || value)
    return key && value ? DecayClass::both : key ? DecayClass::key : DecayClass::value;
  return !any ? DecayClass::none : constant ? DecayClass::constant : DecayClass::scalar;
}

StringRef ejk::stringifyDecayClass(DecayClass decayClass) {
  switch (decayClass) {
  case DecayClass::none:
    return "none";
  case DecayClass::constant:
    return "constant";
  case DecayClass::scalar:
    return "scalar";
  case DecayClass::key:
    return "key";
  case DecayClass::value:
    return "value";
  case DecayClass::both:
    return "both";
  }
  llvm_unreachable("unknown decay class");
}

std::optional<Axis> ejk::getReadAxis(ScanOp scan) {
  std::optional<Axis> found;
  bool both = false;
  auto note = [&](Axis axis) {
    both |= found && *found != axis;
    found = axis;
  };
  scan.getBody().walk([&](ReadOp op) { note(op.getAxis()); });
  scan.getBody().walk([&](CheckpointOp op) { note(op.getAxis()); });
  if (!both)
    return found.value_or(Axis::key);
  // A kernel that makes the side reads by the way takes the axis of the others.
  if (auto side = findSideReads(scan))
    return side->axis == Axis::key ? Axis::value : Axis::key;
  return std::nullopt;
}

bool ejk::hasBranches(ScanOp scan) {
  return llvm::any_of(scan.getStep(), [](Operation &op) { return op.getNumRegions() != 0; });
}

bool ejk::isReduction(Operation *op) { return isa_and_nonnull<SumOp, MaxOp>(op); }

bool ejk::isOnlyChannel(Operation *op) {
  return isReduction(op) && cast<VectorType>(op->getOperand(0).getType()).getDimSize(0) == 1;
}

bool ejk::dependsOnThreads(ScanOp scan, Value from) {
  SmallVector<Value> worklist = {from};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Operation *def = value.getDefiningOp()) {
      if (isReduction(def) && !isOnlyChannel(def))
        return true;
      llvm::append_range(worklist, def->getOperands());
    } else if (cast<BlockArgument>(value).getArgNumber() >= scan.getFirstStateArg()) {
      return true;
    }
  }
  return false;
}

bool ejk::isReductionAlongReads(ScanOp scan, Operation *reduction) {
  if (isOnlyChannel(reduction))
    return true;
  std::optional<Axis> axis = getReadAxis(scan);
  auto matrix = llvm::find_if(scan.getStateArgs(), isMatrix);
  Value vector = reduction->getOperand(0);
  return axis && matrix != scan.getStateArgs().end() &&
         cast<VectorType>(vector.getType()).getDimSize(0) ==
             cast<VectorType>((*matrix).getType()).getDimSize(*axis == Axis::key ? 0 : 1) &&
         !dependsOnThreads(scan, vector);
}

int64_t ejk::elementsOfStates(ScanOp scan) {
  int64_t elements = 0;
  for (Value state : scan.getStateArgs())
    if (auto type = dyn_cast<VectorType>(state.getType()))
      elements += type.getNumElements();
  return elements;
}

int64_t ejk::rowsOf(ScanOp scan) {
  return cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
}

bool ejk::readsPool(ScanOp scan) {
  return llvm::any_of(scan.getInitialStates(),
                      [](Value state) { return bool(state.getDefiningOp<ReadStatesOp>()); });
}

bool ejk::keepsEachState(ScanOp scan) {
  return llvm::any_of(scan.getSaves(), [](Value save) {
    return llvm::any_of(save.getUsers(), llvm::IsaPred<WriteStatesOp>);
  });
}
