//===- ExpandSolves.cpp - triangular systems by matmuls -------------------===//
//
// With L the strictly lower matrix, R what `tile.invert_diagonal` gives of it, and N what L has
// below the blocks on the diagonal:
//
//   (I − L)⁻¹ = (I − Y)⁻¹ (I + R),   Y = (I + R) N
//   (I − Y)⁻¹ = (I + Y) (I + Y²) (I + Y⁴) …
//
// where as many factors are as double to the number of blocks, for Y^blocks is zero. Y^n has
// no blocks in its first n rows of blocks nor in its last n columns of blocks, and matmuls leave
// these out (`over`). With
// (I − L)⁻¹ = I + W, each factor I + P makes W + P + P W of W. So no identity is rounded, and a
// matmul's result is added to what f32 has of it. Y stays as small as the inverse is, where
// the powers of L, of nearly parallel keys, do not.
//
// With nearly parallel keys the entries of W are near 1 and what W adds nearly cancels with the
// right-hand side. Each operand is therefore split into two bf16 terms, x ≈ x1 + x2, and a matmul
// into three, x1 y1 + x2 y1 + x1 y2. In programs of f32 matmuls these are f32 matmuls, too.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Passes.h"
#include "passes/chunk/TileBuilder.h"

namespace ejk {
#define GEN_PASS_DEF_EXPANDSOLVES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Zero but below the blocks on the diagonal.
static Value belowBlocks(TileBuilder &e, Value matrix) {
  ArrayRef<int64_t> shape = e.shapeOf(matrix);
  int64_t block = InvertDiagonalOp::blockOf(shape.front());
  Value step = e.constant(e.f32(shape.take_front()), 1.0 / block);
  Value number = e.floor(e.cumsum(step, /*reverse=*/false, /*exclusive=*/true));
  Value isBelow =
      arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::OGT, e.broadcast(number, 0, shape),
                            e.broadcast(number, 1, shape));
  return e.select(isBelow, matrix, e.zeros(shape));
}

static void expand(SolveOp op) {
  OpBuilder b(op);
  TileBuilder e(b, op.getLoc());
  Type narrow = b.getBF16Type();
  DotAlgorithmAttr algorithm = op.getAlgorithmAttr();
  auto matmul = [&](Value lhs, bool transposed, Value rhs, Value acc, ArrayRef<int64_t> over) {
    if (algorithm)
      return e.dot(lhs, transposed, rhs, false, acc, over, algorithm);
    auto split = [&](Value x) {
      Value first = e.round(x, narrow);
      return std::pair(first, e.round(e.sub(x, e.widen(first)), narrow));
    };
    auto [lhs1, lhs2] = split(lhs);
    auto [rhs1, rhs2] = split(rhs);
    acc = e.dot(lhs1, transposed, rhs2, false, acc, over);
    acc = e.dot(lhs2, transposed, rhs1, false, acc, over);
    return e.dot(lhs1, transposed, rhs1, false, acc, over);
  };
  Value lower = e.mask(op.getMatrix(), /*upper=*/false, /*strict=*/true, 0.0f);
  Value inverse = InvertDiagonalOp::create(b, e.loc, lower.getType(), lower);
  int64_t rows = e.shapeOf(lower)[0], block = InvertDiagonalOp::blockOf(rows);
  if (rows > block) {
    Value below = belowBlocks(e, lower);
    // Y^n is zero in its first n rows of blocks, and in its last n columns of blocks.
    SmallVector<Value> powers = {matmul(inverse, false, below, below, {block, rows})};
    for (int64_t zeros = block; 2 * zeros < rows; zeros *= 2)
      powers.push_back(matmul(powers.back(), false, powers.back(), e.zeros(e.shapeOf(lower)),
                              {zeros, rows - zeros}));
    for (unsigned i = powers.size(); i-- > 0;)
      inverse =
          matmul(powers[i], false, inverse, e.add(inverse, powers[i]), {0, rows - (block << i)});
  }
  op.replaceAllUsesWith(matmul(inverse, op.getTransposed(), op.getRhs(), op.getRhs(), {}));
  op.erase();
}

namespace {
struct ExpandSolvesPass : ejk::impl::ExpandSolvesBase<ExpandSolvesPass> {
  void runOnOperation() override {
    SmallVector<SolveOp> solves;
    getOperation()->walk([&](SolveOp op) { solves.push_back(op); });
    for (SolveOp op : solves) {
      int64_t rows = cast<VectorType>(op.getMatrix().getType()).getDimSize(0);
      if (rows % InvertDiagonalOp::kBlock) {
        op.emitOpError() << "can be computed by matmuls where " << InvertDiagonalOp::kBlock
                         << " divides the matrix's rows, but there are " << rows
                         << "; add rows and columns of zeros";
        return signalPassFailure();
      }
      expand(op);
    }
    numExpanded += solves.size();
  }
};
} // namespace
