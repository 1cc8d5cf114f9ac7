//===- DescribeInterface.cpp - names, sizes and constraints for callers ----===//
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"

namespace ejk {
#define GEN_PASS_DEF_DESCRIBEINTERFACE
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// The total number of rows in the sequences that the offsets `cu` delimit, if `cu` is an op's
/// cu_seqlens.
static std::optional<DimExpr> totalOf(Value cu, const ShapeAnalysis &shapes) {
  for (Operation *user : cu.getUsers()) {
    if (auto scan = dyn_cast<ScanOp>(user); scan && scan.getCuSeqlens() == cu)
      return shapes.dim(scan.getSequences().front(), 1);
    if (auto program = dyn_cast<tile::ProgramOp>(user); program && program.getCuSeqlens() == cu)
      return shapes.dim(program.getSequences().front(), 1);
    if (std::optional<Recurrence> r = Recurrence::of(user); r && r->cuSeqlens == cu)
      return shapes.dim(r->query, 1);
  }
  return std::nullopt;
}

/// The number of states in the pool that `index` has the indices of, if it is an op's index.
static std::optional<DimExpr> indexedStatesOf(Value index, const ShapeAnalysis &shapes) {
  for (Operation *user : index.getUsers()) {
    if (auto read = dyn_cast<ReadStatesOp>(user); read && read.getIndex() == index)
      return shapes.dim(read.getPool(), 0);
    if (auto write = dyn_cast<WriteStatesOp>(user); write && write.getIndex() == index)
      return shapes.dim(write.getPool(), 0);
  }
  return std::nullopt;
}

namespace {
struct DescribeInterfacePass : ejk::impl::DescribeInterfaceBase<DescribeInterfacePass> {
  void runOnOperation() override {
    getOperation()->walk([&](func::FuncOp function) {
      if (!function.isDeclaration() && !function->hasAttr(kConstraintsAttr) &&
          failed(describe(function)))
        signalPassFailure();
    });
  }

  LogicalResult describe(func::FuncOp function) {
    Builder b(&getContext());
    ShapeAnalysis shapes(function);
    if (failed(shapes.verify()))
      return failure();
    auto shapeOf = [&](Value tensor) {
      SmallVector<Attribute> shape;
      if (auto type = dyn_cast<RankedTensorType>(tensor.getType()))
        for (int64_t d = 0; d < type.getRank(); ++d)
          shape.push_back(b.getStringAttr(shapes.symbolOf(tensor, d)));
      return b.getArrayAttr(shape);
    };
    // Names first, because each depends on which others are unset.
    SmallVector<std::string> argNames, operands, resultNames;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      argNames.push_back(argumentName(function, i));
      operands.push_back(argumentOperand(function, i));
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      resultNames.push_back(resultName(function, i));
    Operation *ret = function.getBody().back().getTerminator();
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      function.setResultAttr(i, kNameAttr, b.getStringAttr(resultNames[i]));
      function.setResultAttr(i, kShapeAttr, shapeOf(ret->getOperand(i)));
    }
    for (BlockArgument arg : function.getArguments()) {
      unsigned i = arg.getArgNumber();
      function.setArgAttr(i, kNameAttr, b.getStringAttr(argNames[i]));
      function.setArgAttr(i, kShapeAttr, shapeOf(arg));
      if (!operands[i].empty())
        function.setArgAttr(i, kOperandAttr, b.getStringAttr(operands[i]));
      if (isLogDecay(function, i))
        function.setArgAttr(i, kLogDecayAttr, b.getUnitAttr());
      if (std::optional<DimExpr> total = totalOf(arg, shapes))
        function.setArgAttr(i, kTotalAttr, b.getStringAttr(total->str()));
      if (std::optional<DimExpr> states = indexedStatesOf(arg, shapes))
        function.setArgAttr(i, kIndexedStatesAttr, b.getStringAttr(states->str()));
    }
    SmallVector<Attribute> constraints;
    auto add = [&](const DimExpr &size, const DimExpr *divisor, StringRef message) {
      NamedAttrList fields;
      fields.set("size", b.getStringAttr(size.str()));
      if (divisor)
        fields.set("divisor", b.getStringAttr(divisor->str()));
      fields.set("message", b.getStringAttr(message));
      constraints.push_back(fields.getDictionary(&getContext()));
    };
    for (const ShapeAnalysis::Divides &d : shapes.divisibilities())
      add(d.dividend, &d.divisor, d.message);
    for (const ShapeAnalysis::IsOne &one : shapes.ones())
      add(one.dim, nullptr, one.message);
    function->setAttr(kConstraintsAttr, b.getArrayAttr(constraints));
    ++numFunctions;
    return success();
  }
};
} // namespace
