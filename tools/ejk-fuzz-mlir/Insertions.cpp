//===- Insertions.cpp - blocks and attributes that a module did not have --===//
#include "Insertions.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Attributes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::fuzz;

/// A number near `old`, or one that checks of sizes and indices may have forgotten.
int64_t fuzz::number(int64_t old, Generator &random) {
  int64_t chosen[] = {0,
                      1,
                      -1,
                      2,
                      3,
                      5,
                      7,
                      8,
                      16,
                      32,
                      64,
                      255,
                      1 << 20,
                      int64_t(1) << 40,
                      std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min(),
                      int64_t(uint64_t(old) + 1),
                      int64_t(uint64_t(old) - 1),
                      int64_t(uint64_t(old) * 2),
                      old / 2,
                      int64_t(-uint64_t(old))};
  return chosen[below(random, std::size(chosen))];
}

void fuzz::splitBlock(Operation *op, ArrayRef<Value> values, Generator &random) {
  Block *block = op->getBlock();
  bool isFunction = isa_and_nonnull<FunctionOpInterface>(block->getParentOp());
  if (!block->mightHaveTerminator() || (!isFunction && below(random, 8)))
    return;
  op->getContext()->getOrLoadDialect<cf::ControlFlowDialect>();
  Block *rest = block->splitBlock(op);
  OpBuilder b = OpBuilder::atBlockEnd(block);
  SmallVector<Value> given;
  if (below(random, 2))
    for (Value value : values)
      if (value.getParentBlock() == block && below(random, 4) == 0)
        given.push_back(value);
  for (Value value : given) {
    BlockArgument argument = rest->addArgument(value.getType(), value.getLoc());
    value.replaceUsesWithIf(argument,
                            [&](OpOperand &use) { return use.getOwner()->getBlock() == rest; });
  }
  cf::BranchOp::create(b, op->getLoc(), rest, given);
}

void fuzz::insertBlock(Operation *op, Generator &random) {
  Block *block = op->getBlock();
  if (!block->mightHaveTerminator())
    return;
  op->getContext()->getOrLoadDialect<cf::ControlFlowDialect>();
  op->getContext()->getOrLoadDialect<LLVM::LLVMDialect>();
  auto *made = new Block();
  block->getParent()->getBlocks().insertAfter(Region::iterator(block), made);
  OpBuilder b = OpBuilder::atBlockEnd(made);
  Operation *end = block->getTerminator();
  switch (below(random, 3)) {
  case 0:
    b.clone(*end);
    return;
  case 1:
    cf::BranchOp::create(b, op->getLoc(), made);
    break;
  default:
    LLVM::UnreachableOp::create(b, op->getLoc());
  }
  if (below(random, 2) == 0)
    return;
  b.setInsertionPoint(end);
  cf::BranchOp::create(b, op->getLoc(), made);
  end->erase();
}

void fuzz::insertAttribute(ArrayRef<Operation *> ops, Generator &random) {
  SmallVector<FunctionOpInterface> functions;
  for (Operation *op : ops)
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      functions.push_back(function);
  if (functions.empty())
    return;
  FunctionOpInterface function = pick(ArrayRef(functions), random);
  Builder b(functions.front().getContext());
  auto size = [&]() -> Attribute {
    const char *sizes[] = {"B", "T",        "H",  "N+1",      "64", "4",
                           "n", "B*T/64+N", "d0", "max(1,B)", "-1", ""};
    return b.getStringAttr(pick(ArrayRef(sizes), random));
  };
  auto sizes = [&](Type type) -> Attribute {
    auto shaped = dyn_cast_if_present<ShapedType>(type);
    SmallVector<Attribute> all;
    for (int64_t i = 0, e = shaped && shaped.hasRank() ? shaped.getRank() : 2; i < e; ++i)
      all.push_back(shaped && shaped.hasRank() && !shaped.isDynamicDim(i) && below(random, 8)
                        ? b.getStringAttr(Twine(shaped.getDimSize(i)))
                        : size());
    return b.getArrayAttr(all);
  };
  auto dictionary = [&]() -> Attribute {
    NamedAttrList fields;
    for (StringRef name : {"size", "divisor", "message"})
      if (below(random, 6))
        fields.set(name, size());
    return fields.getDictionary(functions.front().getContext());
  };
  auto any = [&](Type type) -> Attribute {
    Attribute all[] = {b.getUnitAttr(),
                       b.getI64IntegerAttr(number(0, random)),
                       size(),
                       sizes(type),
                       b.getArrayAttr({}),
                       b.getArrayAttr({dictionary()}),
                       b.getArrayAttr({b.getStringAttr(">="), size(), b.getI64IntegerAttr(2)})};
    return pick(ArrayRef(all), random);
  };
  unsigned numArguments = function.getNumArguments(), numResults = function.getNumResults();
  const unsigned place = below(random, 3);
  if (place == 1 && numArguments) {
    unsigned i = below(random, numArguments);
    Type type = function.getArgumentTypes()[i];
    StringRef names[] = {kShapeAttr,         kShapeAttr,     kNameAttr,    kOperandAttr,
                         kLogDecayAttr,      kKeyAttr,       kRateAttr,    kTotalAttr,
                         kIndexedStatesAttr, kMayAliasAttr,  kInPlaceAttr, kSavedReadAttr,
                         kCotangentOfAttr,   kGradientOfAttr};
    StringRef name = pick(ArrayRef(names), random);
    function.setArgAttr(i, name, name == kShapeAttr && below(random, 4) ? sizes(type) : any(type));
  } else if (place == 2 && numResults) {
    unsigned i = below(random, numResults);
    Type type = function.getResultTypes()[i];
    StringRef names[] = {kShapeAttr,    kShapeAttr,   kNameAttr,
                         kMayAliasAttr, kInPlaceAttr, kGradientOfAttr};
    StringRef name = pick(ArrayRef(names), random);
    function.setResultAttr(i, name,
                           name == kShapeAttr && below(random, 4) ? sizes(type) : any(type));
  } else {
    StringRef names[] = {kConstraintsAttr, kConstraintsAttr,   kForwardOfAttr, kDerivativeOfAttr,
                         kScheduleAttr,    kAlternativeOfAttr, kNeedsAttr,     kWhenAttr,
                         kTwoTermsAttr,    kNumInputsAttr};
    function->setAttr(pick(ArrayRef(names), random), any({}));
  }
}
