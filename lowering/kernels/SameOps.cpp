//===- SameOps.cpp - ops that compute the same ----------------------------===//
#include "lowering/kernels/SameOps.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace ejk;

/// Whether each operand of `a` that is an earlier one of its operands is that in `b`, too.
static bool repeatTheSame(Operation *a, Operation *b) {
  llvm::DenseMap<Value, Value> partner, back;
  return llvm::all_of_zip(a->getOperands(), b->getOperands(), [&](Value x, Value y) {
    return partner.try_emplace(x, y).first->second == y &&
           back.try_emplace(y, x).first->second == x;
  });
}

/// The op's attributes, of `segments` only whether they are there: a kernel is told their rows.
static Attribute attributesForKernels(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  if (auto segments = attributes.getNamed("segments"))
    attributes.set(segments->getName(), UnitAttr::get(op->getContext()));
  return attributes.getDictionary(op->getContext());
}

bool ejk::computeTheSame(Operation *a, Operation *b, bool evenIfUnused) {
  return a->getName() == b->getName() && attributesForKernels(a) == attributesForKernels(b) &&
         a->getOperandTypes() == b->getOperandTypes() &&
         a->getResultTypes() == b->getResultTypes() && repeatTheSame(a, b) &&
         llvm::all_of_zip(a->getResults(), b->getResults(),
                          [&](Value x, Value y) {
                            return evenIfUnused || x.use_empty() == y.use_empty();
                          }) &&
         llvm::all_of_zip(a->getRegions(), b->getRegions(), [](Region &x, Region &y) {
           return OperationEquivalence::isRegionEquivalentTo(
               &x, &y, OperationEquivalence::IgnoreLocations);
         });
}
