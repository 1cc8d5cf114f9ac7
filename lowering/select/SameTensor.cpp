//===- SameTensor.cpp - tensors of a derivative that its function has too -===//
#include "lowering/select/SameTensor.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace ejk;

/// Whether two ops of equal operands do the same in their regions.
static bool haveSameRegions(Operation *a, Operation *b) {
  llvm::DenseMap<Value, Value> inside;
  auto check = [&](Value x, Value y) {
    auto known = inside.find(x);
    return success(known == inside.end() ? isSameTensor(x, y) : known->second == y);
  };
  auto mark = [&](Value x, Value y) { inside[x] = y; };
  return llvm::all_of_zip(a->getRegions(), b->getRegions(), [&](Region &x, Region &y) {
    return OperationEquivalence::isRegionEquivalentTo(&x, &y, check, mark,
                                                      OperationEquivalence::IgnoreLocations);
  });
}

bool ejk::isSameTensor(Value derived, Value own) {
  if (!derived || !own)
    return !derived && !own;
  if (derived.getType() != own.getType())
    return false;
  auto arg = dyn_cast<BlockArgument>(derived);
  if (auto other = dyn_cast<BlockArgument>(own))
    return arg && arg.getArgNumber() == other.getArgNumber();
  if (arg)
    return false;
  Operation *a = derived.getDefiningOp(), *b = own.getDefiningOp();
  return a->getName() == b->getName() && a->getAttrDictionary() == b->getAttrDictionary() &&
         cast<OpResult>(derived).getResultNumber() == cast<OpResult>(own).getResultNumber() &&
         a->getNumOperands() == b->getNumOperands() && haveSameRegions(a, b) &&
         llvm::all_of_zip(a->getOperands(), b->getOperands(), isSameTensor);
}
