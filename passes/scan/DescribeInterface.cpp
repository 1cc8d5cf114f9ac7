//===- DescribeInterface.cpp - names, sizes and constraints for callers ----===//
#include "dialect/ejk/Names.h"
#include "dialect/ejk/Roles.h"
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
    if (auto zero = dyn_cast<ZeroSkippedOp>(user); zero && llvm::is_contained(zero.getIndices(), index))
      return shapes.dim(zero.getPool(), 0);
  }
  return std::nullopt;
}

/// Whether `symbol` stands for a size that no op relates to another: d0, d1, ….
static bool isUnrelated(StringRef symbol) {
  return symbol.consume_front("d") && !symbol.empty() && llvm::all_of(symbol, llvm::isDigit);
}

/// That what the function says of dimension `dim` of `what` is what its ops make it. The op that
/// computes a size may be gone.
static LogicalResult checkSize(func::FuncOp function, StringRef what, unsigned dim, StringRef given,
                               const std::string &found) {
  if (given == found || (given.contains('/') && isUnrelated(found)))
    return success();
  return function.emitError() << "'" << kShapeAttr << "' says that dimension " << dim << " of '"
                              << what << "' is " << given << ", but the function's body makes it "
                              << found;
}

/// That `name`, where it is given, says of '`what`' what the function's ops do.
static LogicalResult checkText(func::FuncOp function, StringRef what, StringRef name,
                               Attribute given, const DimExpr &found) {
  if (!given || cast<StringAttr>(given).getValue() == found.str())
    return success();
  return function.emitError() << "'" << name << "' of '" << what << "' is " << given
                              << ", but the function's body makes it " << found.str();
}

/// Whether `function` is a program of launches, on buffers.
static bool isLowered(func::FuncOp function) {
  return llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<BaseMemRefType>);
}

namespace {
struct DescribeInterfacePass : ejk::impl::DescribeInterfaceBase<DescribeInterfacePass> {
  void runOnOperation() override {
    getOperation()->walk([&](func::FuncOp function) {
      bool isDone = function->hasAttr(kConstraintsAttr);
      if (function.isDeclaration() || (isDone && isLowered(function)))
        return;
      if (failed(describe(function, isDone)))
        signalPassFailure();
      numFunctions += !isDone;
    });
  }

  /// Of a function that has been described before, what is there is compared with its body.
  LogicalResult describe(func::FuncOp function, bool isDone) {
    Operation *ret = function.getBody().back().getTerminator();
    if (!function.getBody().hasOneBlock() || !isa<func::ReturnOp>(ret))
      return function.emitError("must have a body of one block, which ends in func.return");
    Builder b(&getContext());
    ShapeAnalysis shapes(function);
    if (failed(shapes.verify()))
      return failure();
    // Names first, because each depends on which others are unset.
    SmallVector<std::string> argNames, operands, resultNames;
    SmallVector<Role> roles;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      roles.push_back(roleOf(function, i));
      argNames.push_back(argumentName(function, i));
      operands.push_back(argumentOperand(function, i));
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      resultNames.push_back(resultName(function, i));
    auto shapeOf = [&](Value tensor, StringRef what, ArrayAttr given) -> FailureOr<ArrayAttr> {
      SmallVector<Attribute> shape;
      if (auto type = dyn_cast<RankedTensorType>(tensor.getType()))
        for (int64_t d = 0; d < type.getRank(); ++d) {
          std::string size = shapes.symbolOf(tensor, d);
          if (given &&
              failed(checkSize(function, what, d, cast<StringAttr>(given[d]).getValue(), size)))
            return failure();
          shape.push_back(given ? given[d] : b.getStringAttr(size));
        }
      return b.getArrayAttr(shape);
    };
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      FailureOr<ArrayAttr> shape =
          shapeOf(ret->getOperand(i), resultNames[i],
                  function.getResultAttrOfType<ArrayAttr>(i, kShapeAttr));
      if (failed(shape))
        return failure();
      function.setResultAttr(i, kNameAttr, b.getStringAttr(resultNames[i]));
      function.setResultAttr(i, kShapeAttr, *shape);
    }
    for (BlockArgument arg : function.getArguments()) {
      unsigned i = arg.getArgNumber();
      FailureOr<ArrayAttr> shape =
          shapeOf(arg, argNames[i], function.getArgAttrOfType<ArrayAttr>(i, kShapeAttr));
      if (failed(shape))
        return failure();
      function.setArgAttr(i, kNameAttr, b.getStringAttr(argNames[i]));
      function.setArgAttr(i, kShapeAttr, *shape);
      std::optional<DimExpr> known[] = {totalOf(arg, shapes), indexedStatesOf(arg, shapes)};
      for (auto [name, size] : llvm::zip(ArrayRef{kTotalAttr, kIndexedStatesAttr}, known))
        if (size) {
          if (failed(checkText(function, argNames[i], name, function.getArgAttr(i, name), *size)))
            return failure();
          function.setArgAttr(i, name, b.getStringAttr(size->str()));
        }
      if (isDone)
        continue;
      if (!operands[i].empty())
        function.setArgAttr(i, kOperandAttr, b.getStringAttr(operands[i]));
      if (StringRef role = attributeOf(roles[i]); !role.empty())
        function.setArgAttr(i, role, b.getUnitAttr());
    }
    describeConstraints(function, shapes);
    return success();
  }

  /// Those that the function has already stay: callers may have to satisfy more than its ops need.
  void describeConstraints(func::FuncOp function, const ShapeAnalysis &shapes) {
    Builder b(&getContext());
    SmallVector<Attribute> constraints;
    if (auto given = function->getAttrOfType<ArrayAttr>(kConstraintsAttr))
      llvm::append_range(constraints, given);
    auto add = [&](const DimExpr &size, const DimExpr *divisor, StringRef message) {
      NamedAttrList fields;
      fields.set("size", b.getStringAttr(size.str()));
      if (divisor)
        fields.set("divisor", b.getStringAttr(divisor->str()));
      fields.set("message", b.getStringAttr(message));
      DictionaryAttr constraint = fields.getDictionary(&getContext());
      if (!llvm::is_contained(constraints, constraint))
        constraints.push_back(constraint);
    };
    for (const ShapeAnalysis::Divides &d : shapes.divisibilities())
      add(d.dividend, &d.divisor, d.message);
    for (const ShapeAnalysis::IsOne &one : shapes.ones())
      add(one.dim, nullptr, one.message);
    function->setAttr(kConstraintsAttr, b.getArrayAttr(constraints));
  }
};
} // namespace
