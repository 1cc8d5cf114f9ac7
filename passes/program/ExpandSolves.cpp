//===- ExpandSolves.cpp - triangular systems by matmuls -------------------===//
//
// Block by block: with L the strictly lower matrix, D what `tile.invert_diagonal` and
// `tile.merge_inverses` give of the block on its diagonal, and X the rows that are solved already,
//
//   X_b = (I + D_b) (rhs_b + Σ_c L_bc X_c)
//
// where c counts the blocks before b, or after b if the system is transposed. The matmuls add to the
// rows of block b alone (`rows`), and sum over the rows of one block or of those solved already
// (`over`). No identity is rounded, and the right-hand side stays in f32. No larger inverse is made:
// that would multiply more, and its matmuls would need its operands in shared memory.
//
// With nearly parallel keys the entries of D and L are near 1, and what they add nearly cancels with
// the right-hand side. Each operand is therefore split into two bf16 terms, x ≈ x1 + x2, and a matmul
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

/// Rows of the blocks that are inverted by substitution, and the fewest and most rows of those that
/// matmuls take. These are merged from smaller ones, as far as their rows divide a matrix's. A matrix of
/// the fewest rows is substituted at once, since a merge would wait at a barrier, and so are blocks beside
/// f32 matmuls, since merges have 21 of f32's 24 bits.
static constexpr int64_t kSubstituted = 8, kLeast = 16, kMost = 32;

static void expand(SolveOp op) {
  OpBuilder b(op);
  TileBuilder e(b, op.getLoc());
  Type narrow = b.getBF16Type();
  DotAlgorithmAttr algorithm = op.getAlgorithmAttr();
  auto split = [&](Value x) {
    Value first = e.round(x, narrow);
    return std::pair(first, e.round(e.sub(x, e.widen(first)), narrow));
  };
  Value lower = e.mask(op.getMatrix(), /*upper=*/false, /*strict=*/true, 0.0f);
  int64_t rows = e.shapeOf(lower)[0], block = kSubstituted;
  if (algorithm || rows == kLeast)
    block = rows % kMost ? kLeast : kMost;
  Value matrix = InvertDiagonalOp::create(b, e.loc, lower.getType(), lower, block);
  for (; block < kMost && rows % (2 * block) == 0; block *= 2)
    matrix = MergeInversesOp::create(b, e.loc, matrix.getType(), matrix, block);
  Value lhs1, lhs2;
  if (!algorithm)
    std::tie(lhs1, lhs2) = split(matrix);
  Value solved = op.getRhs();
  for (int64_t done = 0; done < rows; done += block) {
    int64_t first = op.getTransposed() ? rows - done - block : done, last = first + block;
    auto add = [&](int64_t from, int64_t to) {
      const int64_t over[] = {from, to}, sums[] = {first, last};
      bool isWhole = rows == block;
      auto multiply = [&](Value lhs, Value rhs) {
        solved = e.dot(lhs, op.getTransposed(), rhs, false, solved,
                       isWhole ? ArrayRef<int64_t>() : ArrayRef(over),
                       isWhole ? ArrayRef<int64_t>() : ArrayRef(sums), algorithm);
      };
      if (algorithm)
        return multiply(matrix, solved);
      auto [rhs1, rhs2] = split(solved);
      multiply(lhs1, rhs2);
      multiply(lhs2, rhs1);
      multiply(lhs1, rhs1);
    };
    if (done > 0)
      op.getTransposed() ? add(last, rows) : add(0, first);
    add(first, last);
  }
  op.replaceAllUsesWith(solved);
  op.erase();
}

namespace {
struct ExpandSolvesPass : ejk::impl::ExpandSolvesBase<ExpandSolvesPass> {
  void runOnOperation() override {
    SmallVector<SolveOp> solves;
    getOperation()->walk([&](SolveOp op) { solves.push_back(op); });
    for (SolveOp op : solves) {
      int64_t rows = cast<VectorType>(op.getMatrix().getType()).getDimSize(0);
      if (rows % kLeast) {
        op.emitOpError() << "can be computed by matmuls where " << kLeast
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
