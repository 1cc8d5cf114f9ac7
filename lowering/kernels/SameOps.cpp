//===- SameOps.cpp - ops that compute the same ----------------------------===//
#include "lowering/kernels/SameOps.h"
#include "lowering/kernels/LinalgLoops.h"
#include "lowering/kernels/Neighbours.h"
#include "mlir/IR/Matchers.h"
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

/// The op's attributes. A kernel is told the rows of its segments, so that of `segments` only this counts:
/// whether there are any, and whether a chunk may hold rows of a neighbour.
static Attribute attributesForKernels(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  auto program = dyn_cast<tile::ProgramOp>(op);
  if (auto segments = attributes.getNamed("segments"))
    attributes.set(segments->getName(),
                   BoolAttr::get(op->getContext(), program && hasNeighbours(program)));
  return attributes.getDictionary(op->getContext());
}

/// Whether `a` and `b` are constants of one value, which kernels hold.
static bool areSameConstants(Value a, Value b) {
  Attribute ofA, ofB;
  return matchPattern(a, m_Constant(&ofA)) && matchPattern(b, m_Constant(&ofB)) && ofA == ofB;
}

/// Whether what kernels hold of an elementwise op's operands, in place of reading memory, is the same.
static bool holdTheSame(Operation *a, Operation *b) {
  if (!isa<linalg::GenericOp>(a))
    return true;
  return llvm::all_of_zip(a->getOperands(), b->getOperands(), [](Value x, Value y) {
    bool isNumber = !isa<RankedTensorType>(x.getType());
    return isNumber ? areSameConstants(x, y)
                    : LinalgLoops::constantInit(x) == LinalgLoops::constantInit(y);
  });
}

/// Whether two regions are the same, but for the constants that they take from outside: these have
/// the same values.
static bool areSameRegions(Region &a, Region &b) {
  llvm::DenseMap<Value, Value> partner;
  auto check = [&](Value x, Value y) {
    auto known = partner.find(x);
    return success(known != partner.end() ? known->second == y : areSameConstants(x, y));
  };
  auto mark = [&](Value x, Value y) { partner[x] = y; };
  return OperationEquivalence::isRegionEquivalentTo(&a, &b, check, mark,
                                                    OperationEquivalence::IgnoreLocations);
}

bool ejk::computeTheSame(Operation *a, Operation *b, bool evenIfUnused) {
  return a->getName() == b->getName() && attributesForKernels(a) == attributesForKernels(b) &&
         a->getOperandTypes() == b->getOperandTypes() &&
         a->getResultTypes() == b->getResultTypes() && repeatTheSame(a, b) && holdTheSame(a, b) &&
         llvm::all_of_zip(a->getResults(), b->getResults(),
                          [&](Value x, Value y) {
                            return evenIfUnused || x.use_empty() == y.use_empty();
                          }) &&
         llvm::all_of_zip(a->getRegions(), b->getRegions(), areSameRegions);
}
