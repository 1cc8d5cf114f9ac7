//===- TileSolve.cpp - what solves take beside matmuls --------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/kernels/Tf32Product.h"
#include "lowering/memory/Accesses.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// f32 that a thread loads at a time.
static constexpr int64_t kLoaded = 4;

/// Copies a square matrix but for its blocks on the diagonal, or, with `isBelow`, for every second
/// one just below the diagonal. `number` counts the `threads` that copy.
void TileEmitter::copyAround(const Placed &from, const Placed &to, Value number, int64_t threads,
                             int64_t block, bool isBelow) {
  Type some = KernelBuilder::withCount(b.getF32Type(), kLoaded), byte = b.getI8Type();
  int64_t rows = cast<VectorType>(from.type).getDimSize(0), inRow = rows / kLoaded;
  for (int64_t first = 0; first < rows * inRow; first += threads) {
    Value piece = b.add(number, first);
    Value row = b.div(piece, inRow), place = b.rem(piece, inRow);
    Value down = b.div(row, block), across = b.div(place, block / kLoaded);
    // The blocks that are left out are those where this is 1 of pairs, or 0.
    Value apart = b.sub(down, across);
    Value copied = b.make<arith::CmpIOp>(arith::CmpIPredicate::ne, apart, b.i32(isBelow));
    if (isBelow)
      copied = b.make<arith::OrIOp>(copied, b.equal(b.rem(down, 2), 0));
    if (first + threads > rows * inRow)
      copied = b.both(copied, b.less(piece, rows * inRow));
    b.onlyIf(copied, [&] {
      auto at = [&](const Placed &tile) {
        Value offset = b.add(b.mul(row, tile.pitch), b.mul(place, kLoaded * sizeof(float)));
        return b.at(tile.address, byte, offset);
      };
      b.store(b.load(some, at(from)), at(to));
    });
  }
}

/// Each of the first threads has one column of a block, and substitutes in registers. The lanes that
/// share a block read the same numbers of it at a time. The other threads copy the rest, unless the
/// result takes the matrix's place: the lanes of a block are in one warp, which has read before it
/// stores.
void TileEmitter::emitInvertDiagonal(InvertDiagonalOp op) {
  int64_t rows = op.getType().getDimSize(0), block = op.getBlock();
  int64_t threads = warps * kWarpSize, left = threads - rows;
  Placed from = placed(op.getMatrix());
  Placed to = sharedFor(op.getResult());
  Type f32 = b.getF32Type(), byte = b.getI8Type();
  Value number = b.add(b.mul(warp, kWarpSize), lane);
  bool inPlace = isInPlace(op);
  if (!inPlace && left > 0)
    b.onlyIf(b.less(b.i32(rows - 1), number), [&] {
      copyAround(from, to, b.sub(number, rows), left, block, /*isBelow=*/false);
    });
  else if (!inPlace)
    copyAround(from, to, number, threads, block, /*isBelow=*/false);
  b.onlyIf(b.less(number, rows), [&] {
    Value own = b.div(number, block), column = b.rem(number, block);
    Value source = b.at(from.address, byte, b.mul(own, block * (from.pitch + sizeof(float))));
    // Some of the matrix's columns at a time, for all rows, so that no sum waits for another.
    SmallVector<Value> x(block, b.f32(0)); // with the 1 on the diagonal
    for (int64_t first = 0; first < block; first += kLoaded) {
      SmallVector<SmallVector<Value>> rowsOf(block);
      for (int64_t i = first; i < block; ++i)
        rowsOf[i] = b.unpack(b.load(KernelBuilder::withCount(f32, kLoaded),
                                    b.at(source, byte, i * from.pitch + first * sizeof(float))));
      for (int64_t k = 0; k < kLoaded; ++k) {
        Value &own = x[first + k];
        own = b.make<arith::SelectOp>(b.equal(column, first + k), b.f32(1), own);
        for (int64_t i = first + k + 1; i < block; ++i)
          x[i] = b.make<math::FmaOp>(rowsOf[i][k], own, x[i]);
      }
    }
    if (inPlace)
      b.make<NVVM::SyncWarpOp>(b.i32(-1));
    Value target = b.at(to.address, byte,
                        b.add(b.mul(own, block * to.pitch), b.mul(number, sizeof(float))));
    for (auto [i, element] : llvm::enumerate(x)) {
      Value isBelow = b.less(column, i);
      b.store(b.make<arith::SelectOp>(isBelow, element, b.f32(0)),
              b.at(target, byte, i * to.pitch));
    }
  });
  tiles[op.getResult()] = to;
}

/// One warp merges a pair, by tensor cores: first Y = (I + B) C, then Y (I + A). What a product sums
/// over may have any order, so lanes have the sums of the first product where the second one takes its
/// operand. In place, all lanes have read before one of them stores.
void TileEmitter::emitMergeInverses(MergeInversesOp op) {
  int64_t rows = op.getType().getDimSize(0), block = op.getBlock(), pairs = rows / (2 * block);
  unsigned blocks = block / 8; // of 8 rows or columns
  Placed from = placed(op.getMatrix());
  Placed to = sharedFor(op.getResult());
  Type f32 = b.getF32Type(), byte = b.getI8Type(), two = KernelBuilder::withCount(f32, 2);
  if (!isInPlace(op))
    copyAround(from, to, b.add(b.mul(warp, kWarpSize), lane), warps * kWarpSize, block,
               /*isBelow=*/true);
  Value inGroup = b.rem(lane, 4), group = b.div(lane, 4);
  Tf32Product product{b};
  auto merge = [&](Value pair) {
    auto pairOf = [&](const Placed &tile) {
      return b.at(tile.address, byte, b.mul(pair, 2 * block * (tile.pitch + sizeof(float))));
    };
    Value upper = pairOf(from), below = b.at(upper, byte, block * from.pitch);
    Value lower = b.at(below, byte, block * sizeof(float));
    /// The address of a lane's element, from which others lie a constant apart.
    auto laneAt = [&](Value part, Value row, Value column, int64_t pitch) {
      return b.at(part, byte, b.add(b.mul(row, pitch), b.mul(column, sizeof(float))));
    };
    auto apart = [&](Value start, int64_t row, int64_t column, int64_t pitch) {
      return b.at(start, byte, row * pitch + column * sizeof(float));
    };
    // The right operand's blocks in a column of blocks; its rows are `step` · lane + `between` · p.
    auto rightOf = [&](Value part, unsigned column, int64_t step, int64_t between) {
      Value start = laneAt(part, b.mul(inGroup, step), group, from.pitch);
      SmallVector<Tf32Product::Right> right(blocks);
      for (unsigned k = 0; k < blocks; ++k)
        for (unsigned p : {0, 1})
          right[k][p] = termsInTf32(
              b, b.load(f32, apart(start, 8 * k + between * p, 8 * column, from.pitch)));
      return right;
    };
    Value zero = b.f32(0), none = b.i32(0);
    SmallVector<Tf32Product::Left> left(blocks), merged(blocks);
    Value leftStart = laneAt(lower, group, inGroup, from.pitch);
    for (unsigned k = 0; k < blocks; ++k)
      for (unsigned h : {0, 1})
        for (unsigned p : {0, 1})
          left[k][h][p] = h < blocks
                              ? termsInTf32(b, b.load(f32, apart(leftStart, 8 * h, 8 * k + 4 * p,
                                                                 from.pitch)))
                              : std::array<Value, 2>{none, none};
    SmallVector<Tf32Product::Sums> sums(blocks);
    Value sumsStart = laneAt(below, group, b.mul(inGroup, 2), from.pitch);
    for (unsigned j = 0; j < blocks; ++j)
      for (unsigned h : {0, 1}) {
        SmallVector<Value> loaded(2, zero);
        if (h < blocks)
          loaded = b.unpack(b.load(two, apart(sumsStart, 8 * h, 8 * j, from.pitch)));
        std::copy(loaded.begin(), loaded.end(), sums[j].begin() + 2 * h);
      }
    for (unsigned j = 0; j < blocks; ++j) {
      SmallVector<Tf32Product::Right> right = rightOf(below, j, 1, 4);
      for (unsigned k = 0; k < blocks; ++k)
        product.add(sums[j], left[k], right[k]);
    }
    for (unsigned j = 0; j < blocks; ++j)
      for (unsigned h : {0, 1})
        for (unsigned p : {0, 1})
          merged[j][h][p] = termsInTf32(b, sums[j][2 * h + p]);
    for (unsigned j = 0; j < blocks; ++j) {
      SmallVector<Tf32Product::Right> right = rightOf(upper, j, 2, 1);
      for (unsigned k = 0; k < blocks; ++k)
        product.add(sums[j], merged[k], right[k]);
    }
    b.make<NVVM::SyncWarpOp>(b.i32(-1));
    Value target = laneAt(b.at(pairOf(to), byte, block * to.pitch), group, b.mul(inGroup, 2),
                          to.pitch);
    for (unsigned j = 0; j < blocks; ++j)
      for (unsigned h = 0; h < std::min(blocks, 2u); ++h)
        b.store(b.pack(ValueRange(sums[j]).slice(2 * h, 2)),
                apart(target, 8 * h, 8 * j, to.pitch));
  };
  for (int64_t first = 0; first < pairs; first += warps) {
    Value pair = b.add(warp, first);
    if (first + warps <= pairs)
      merge(pair);
    else
      b.onlyIf(b.less(pair, pairs), [&] { merge(pair); });
  }
  tiles[op.getResult()] = to;
}
