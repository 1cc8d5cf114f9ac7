//===- TileBuilder.h - shorthands for writing tile programs -------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_TILEBUILDER_H
#define EJK_PASSES_CHUNK_TILEBUILDER_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace ejk {

/// Creates ops on tiles at the builder's insertion point, one per call.
class TileBuilder {
public:
  TileBuilder(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}

  mlir::VectorType f32(llvm::ArrayRef<int64_t> shape) {
    return mlir::VectorType::get(shape, b.getF32Type());
  }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value tile) {
    return llvm::cast<mlir::VectorType>(tile.getType()).getShape();
  }

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, loc, value); }
  /// A constant of `type`, scalar or with `value` in every element.
  mlir::Value constant(mlir::Type type, double value) {
    mlir::TypedAttr attr = b.getFloatAttr(mlir::getElementTypeOrSelf(type), value);
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
      attr = mlir::DenseElementsAttr::get(vector, attr);
    return mlir::arith::ConstantOp::create(b, loc, attr);
  }
  mlir::Value zeros(llvm::ArrayRef<int64_t> shape) { return constant(f32(shape), 0.0); }

  /// Negations move outwards: sums and rows of −x are computed from x, so that expressions that
  /// differ only in sign are shared.
  mlir::Value add(mlir::Value x, mlir::Value y) {
    if (mlir::Value positive = negated(x))
      return sub(y, positive);
    return binary<mlir::arith::AddFOp>(x, y);
  }
  mlir::Value neg(mlir::Value x) {
    mlir::Value positive = negated(x);
    return positive ? positive : mlir::arith::NegFOp::create(b, loc, x);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    if (mlir::Value positive = negated(y))
      return add(x, positive);
    return binary<mlir::arith::SubFOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return binary<mlir::arith::MulFOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return binary<mlir::arith::DivFOp>(x, y); }
  mlir::Value larger(mlir::Value x, mlir::Value y) { return binary<mlir::arith::MaximumFOp>(x, y); }
  mlir::Value smaller(mlir::Value x, mlir::Value y) { return binary<mlir::arith::MinimumFOp>(x, y); }
  mlir::Value addIndex(mlir::Value x, mlir::Value y) { return binary<mlir::arith::AddIOp>(x, y); }
  mlir::Value subIndex(mlir::Value x, mlir::Value y) { return binary<mlir::arith::SubIOp>(x, y); }
  mlir::Value mulIndex(mlir::Value x, mlir::Value y) { return binary<mlir::arith::MulIOp>(x, y); }
  mlir::Value divIndex(mlir::Value x, mlir::Value y) { return binary<mlir::arith::DivUIOp>(x, y); }
  mlir::Value remIndex(mlir::Value x, mlir::Value y) { return binary<mlir::arith::RemUIOp>(x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value otherwise) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, otherwise);
  }
  mlir::Value exp(mlir::Value x) { return mlir::math::ExpOp::create(b, loc, x); }
  mlir::Value exp2(mlir::Value x) { return mlir::math::Exp2Op::create(b, loc, x); }
  mlir::Value abs(mlir::Value x) { return mlir::math::AbsFOp::create(b, loc, x); }
  mlir::Value floor(mlir::Value x) { return mlir::math::FloorOp::create(b, loc, x); }

  /// `tile` rounded to `type`. If it was widened from `type`, the original.
  mlir::Value round(mlir::Value tile, mlir::Type type) {
    auto vector = llvm::cast<mlir::VectorType>(tile.getType());
    if (vector.getElementType() == type)
      return tile;
    auto narrow = mlir::VectorType::get(vector.getShape(), type);
    if (auto widened = tile.getDefiningOp<mlir::arith::ExtFOp>())
      if (widened.getIn().getType() == narrow)
        return widened.getIn();
    return mlir::arith::TruncFOp::create(b, loc, narrow, tile);
  }

  /// `tile` with f32 elements.
  mlir::Value widen(mlir::Value tile) {
    auto vector = llvm::cast<mlir::VectorType>(tile.getType());
    if (vector.getElementType().isF32())
      return tile;
    return mlir::arith::ExtFOp::create(b, loc, f32(vector.getShape()), tile);
  }

  /// `x` times each constant in turn, because their product may overflow f32.
  mlir::Value scale(mlir::Value x, llvm::ArrayRef<double> factors) {
    for (double factor : factors)
      if (factor != 1)
        x = mul(x, constant(x.getType(), factor));
    return x;
  }

  mlir::Value broadcast(mlir::Value number, mlir::VectorType type) {
    return mlir::vector::BroadcastOp::create(b, loc, type, number);
  }
  /// Broadcasts a vector along dimension `dim` of a tile of `shape`.
  mlir::Value broadcast(mlir::Value vector, unsigned dim, llvm::ArrayRef<int64_t> shape) {
    return tile::BroadcastOp::create(b, loc, f32(shape), vector, dim);
  }
  /// Rows `from` to `to` of a tile, and zeros elsewhere.
  mlir::Value rows(mlir::Value tile, int64_t from, int64_t to) {
    return window(tile, {index(from), index(0)}, {index(to), index(shapeOf(tile)[1])});
  }
  /// Broadcasts a vector or scalar over the rows of a tile like `like`.
  mlir::Value overRows(mlir::Value row, mlir::Value like) {
    auto type = llvm::cast<mlir::VectorType>(like.getType());
    return type.getRank() == 1 ? broadcast(row, type) : broadcast(row, 1, type.getShape());
  }
  /// Row `at` of a matrix, or element `at` of a vector.
  mlir::Value row(mlir::Value tile, mlir::OpFoldResult at) {
    if (mlir::Value positive = negated(tile))
      return neg(row(positive, at));
    return mlir::vector::ExtractOp::create(b, loc, tile, at);
  }
  /// `tile` with row `at` replaced by `row`.
  mlir::Value withRow(mlir::Value tile, mlir::Value row, mlir::OpFoldResult at) {
    return mlir::vector::InsertOp::create(b, loc, row, tile, at);
  }
  mlir::Value dot(mlir::Value lhs, bool lhsTransposed, mlir::Value rhs, bool rhsTransposed,
                  mlir::Value acc, llvm::ArrayRef<int64_t> over = {},
                  llvm::ArrayRef<int64_t> rows = {}, tile::DotAlgorithmAttr algorithm = {}) {
    auto attr = [&](llvm::ArrayRef<int64_t> range) {
      return range.empty() ? mlir::DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(range);
    };
    return tile::DotOp::create(b, loc, acc.getType(), lhs, rhs, acc, lhsTransposed, rhsTransposed,
                               attr(over), attr(rows), algorithm);
  }
  mlir::Value solve(mlir::Value matrix, mlir::Value rhs, bool transposed) {
    return tile::SolveOp::create(b, loc, rhs.getType(), matrix, rhs, transposed,
                                 tile::DotAlgorithmAttr());
  }
  mlir::Value cumsum(mlir::Value tile, bool reverse, bool exclusive,
                     std::optional<int64_t> from = std::nullopt) {
    return tile::CumsumOp::create(b, loc, tile.getType(), tile, reverse, exclusive,
                                  from ? b.getI64IntegerAttr(*from) : mlir::IntegerAttr(),
                                  /*triangle=*/mlir::Value());
  }
  mlir::Value mask(mlir::Value tile, bool upper, bool strict, float otherwise) {
    auto flag = [&](bool set) { return set ? b.getUnitAttr() : mlir::UnitAttr(); };
    return tile::MaskOp::create(b, loc, tile.getType(), tile, b.getF32FloatAttr(otherwise),
                                flag(upper), flag(strict));
  }
  mlir::Value window(mlir::Value tile, mlir::ValueRange from, mlir::ValueRange to) {
    return tile::WindowOp::create(b, loc, tile.getType(), tile, from, to, b.getF32FloatAttr(0.0f));
  }
  mlir::Value sum(mlir::Value tile, unsigned dim) {
    return tile::SumOp::create(b, loc, f32({shapeOf(tile)[1 - dim]}), tile, dim);
  }
  /// Whether |x| ≤ bound for all elements of all `tiles`.
  mlir::Value rangeGuard(double bound, mlir::ValueRange tiles) {
    auto unsignedTiles = llvm::map_to_vector(tiles, [](mlir::Value tile) {
      mlir::Value positive = negated(tile);
      return positive ? positive : tile;
    });
    return tile::RangeGuardOp::create(b, loc, b.getI1Type(), b.getF32FloatAttr(bound),
                                      unsignedTiles);
  }
  /// The sum over both dimensions.
  mlir::Value total(mlir::Value tile) { return totalOf(sum(tile, 1)); }
  /// The sum of a vector.
  mlir::Value totalOf(mlir::Value vector) {
    mlir::Value sums = cumsum(vector, /*reverse=*/false, /*exclusive=*/false);
    return row(sums, b.getIndexAttr(shapeOf(sums)[0] - 1));
  }

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  /// x if the argument is −x, otherwise null.
  static mlir::Value negated(mlir::Value x) {
    auto neg = x.getDefiningOp<mlir::arith::NegFOp>();
    return neg ? neg.getOperand() : mlir::Value();
  }
  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    return Op::create(b, loc, x, y);
  }
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_TILEBUILDER_H
