//===- TensorSums.cpp - reductions between scans ---------------------------===//
#include "passes/scan/TensorSums.h"
#include "dialect/shapes/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"
#include <limits>

using namespace mlir;
using namespace ejk;

/// Reduces `inputs` over dimension `dim`, starting from `start`. `combine` computes the next value
/// from the inputs' elements and the value so far, which is last.
static Value reduce(OpBuilder &b, Location loc, ValueRange inputs, unsigned dim, double start,
                    llvm::function_ref<Value(OpBuilder &, ValueRange)> combine) {
  auto type = cast<RankedTensorType>(inputs.front().getType());
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape;
  SmallVector<Value> sizes;
  SmallVector<AffineExpr> kept;
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  loops[dim] = utils::IteratorType::reduction;
  for (int64_t d = 0; d < rank; ++d) {
    if (d == dim)
      continue;
    shape.push_back(type.getDimSize(d));
    kept.push_back(b.getAffineDimExpr(d));
    if (type.isDynamicDim(d))
      sizes.push_back(tensor::DimOp::create(b, loc, inputs.front(), d));
  }
  auto result = RankedTensorType::get(shape, b.getF32Type());
  Value empty = tensor::EmptyOp::create(b, loc, result, sizes);
  Value number = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(start));
  Value init = linalg::FillOp::create(b, loc, number, empty).getResult(0);
  SmallVector<AffineMap> maps(inputs.size(), b.getMultiDimIdentityMap(rank));
  maps.push_back(AffineMap::get(rank, 0, kept, b.getContext()));
  return linalg::GenericOp::create(b, loc, result, inputs, init, maps, loops,
                                   [&](OpBuilder &nested, Location l, ValueRange args) {
                                     linalg::YieldOp::create(nested, l, combine(nested, args));
                                   })
      .getResult(0);
}

Value ejk::sumOver(OpBuilder &b, Location loc, Value x, unsigned dim) {
  return reduce(b, loc, x, dim, 0, [&](OpBuilder &nested, ValueRange args) -> Value {
    return arith::AddFOp::create(nested, loc, args.back(), args[0]);
  });
}

Value ejk::maxOver(OpBuilder &b, Location loc, Value x, unsigned dim) {
  return reduce(b, loc, x, dim, -std::numeric_limits<double>::infinity(),
                [&](OpBuilder &nested, ValueRange args) -> Value {
                  return arith::MaximumFOp::create(nested, loc, args.back(), args[0]);
                });
}

bool ejk::isSumOver(linalg::GenericOp op, unsigned dim) {
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  Operation *term = &op.getBody()->front();
  auto sum = dyn_cast<arith::AddFOp>(term);
  auto zero = op.getOutputs()[0].getDefiningOp<linalg::FillOp>();
  return reduced.size() == 1 && reduced[0] == dim && op.getNumDpsInputs() == 1 && sum && zero &&
         matchPattern(zero.value(), m_AnyZeroFloat()) &&
         llvm::all_of(sum->getOperands(), llvm::IsaPred<BlockArgument>) &&
         sum.getLhs() != sum.getRhs() &&
         op.getMatchingIndexingMap(op.getDpsInputOperand(0)).isIdentity() &&
         op.getBody()->getTerminator()->getOperand(0) == sum;
}

Value ejk::sumOfProducts(OpBuilder &b, Location loc, Value x, Value y, unsigned dim) {
  return reduce(b, loc, {x, y}, dim, 0, [&](OpBuilder &nested, ValueRange args) -> Value {
    Value mul = arith::MulFOp::create(nested, loc, args[0], args[1]);
    return arith::AddFOp::create(nested, loc, args.back(), mul);
  });
}

Value ejk::sumHeads(OpBuilder &b, Location loc, Value x, unsigned dim, Value like, Type element) {
  auto type = cast<RankedTensorType>(like.getType());
  if (type.getDimSize(dim) == cast<RankedTensorType>(x.getType()).getDimSize(dim) &&
      !type.isDynamicDim(dim))
    return x;
  return SumHeadsOp::create(b, loc, type.clone(element), x, b.getI64IntegerAttr(dim), like);
}

Value ejk::castLike(OpBuilder &b, Location loc, Value x, Value like) {
  auto type = cast<RankedTensorType>(x.getType());
  RankedTensorType wanted = cast<RankedTensorType>(like.getType()).clone(type.getElementType());
  return type == wanted ? x : tensor::CastOp::create(b, loc, wanted, x).getResult();
}

Value ejk::sumToParameter(OpBuilder &b, Location loc, Value x, Value like, int64_t channels,
                          Type element) {
  auto rank = [](Value v) { return cast<RankedTensorType>(v.getType()).getRank(); };
  if (rank(x) > 2 + channels)
    x = sumOver(b, loc, x, 2);
  int64_t walked = rank(like) - channels; // [], [H'] or [N,H']
  if (walked < 2)
    x = sumOver(b, loc, x, 0);
  return walked == 0 ? sumOver(b, loc, x, 0) : sumHeads(b, loc, x, walked - 1, like, element);
}

/// The symbol that ejk-describe-interface gave a size of an argument; empty if there is none.
static StringRef describedSize(Value tensor, unsigned dim) {
  auto arg = dyn_cast<BlockArgument>(tensor);
  auto function = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  if (!function || arg.getOwner() != &function.front())
    return {};
  auto shape = function.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(), kShapeAttr);
  return shape && dim < shape.size() ? cast<StringAttr>(shape[dim]).getValue() : StringRef();
}

bool ejk::haveSameSize(Value a, Value b, unsigned dim) {
  int64_t size = cast<RankedTensorType>(a.getType()).getDimSize(dim);
  if (a == b ||
      (!ShapedType::isDynamic(size) && size == cast<RankedTensorType>(b.getType()).getDimSize(dim)))
    return true;
  StringRef symbol = describedSize(a, dim);
  return !symbol.empty() && symbol == describedSize(b, dim);
}
