//===- TileSolve.cpp - what solves take beside matmuls --------------------===//
#include "lowering/emit/TileEmitter.h"
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

/// Some lanes of a warp share a column of C, so that they can exchange it: each computes a few rows
/// of C (I + A), and then, of the rows that all of them have, the same rows of (I + B) times that.
/// Where the result takes the matrix's place, all threads have read C before one stores it.
void TileEmitter::emitMergeInverses(MergeInversesOp op) {
  int64_t rows = op.getType().getDimSize(0), block = op.getBlock();
  int64_t threads = warps * kWarpSize, columns = rows / 2;
  int64_t sharing = std::min<int64_t>(block, llvm::bit_floor(uint64_t(threads / columns)));
  Placed from = placed(op.getMatrix());
  Placed to = sharedFor(op.getResult());
  Type f32 = b.getF32Type(), byte = b.getI8Type();
  Type some = KernelBuilder::withCount(f32, kLoaded);
  Value number = b.add(b.mul(warp, kWarpSize), lane);
  bool inPlace = isInPlace(op);
  if (!inPlace)
    copyAround(from, to, number, threads, block, /*isBelow=*/true);
  Value isSharing = columns * sharing < threads ? b.less(number, columns * sharing) : Value();
  // Threads that have no column compute one again.
  Value share = isSharing ? b.rem(number, columns * sharing) : number;
  {
    Value place = b.div(share, sharing), first = b.rem(share, sharing);
    Value pair = b.div(place, block), column = b.rem(place, block);
    auto pairOf = [&](const Placed &tile) {
      return b.at(tile.address, byte, b.mul(pair, 2 * block * (tile.pitch + sizeof(float))));
    };
    Value upper = pairOf(from), below = b.at(upper, byte, block * from.pitch);
    Value lower = b.at(below, byte, block * sizeof(float));
    Value inColumn = b.mul(column, sizeof(float));
    auto rowOf = [&](Value part, int64_t slot) {
      return b.at(b.at(part, byte, b.mul(first, from.pitch)), byte, slot * sharing * from.pitch);
    };
    // Adds this lane's rows of `part` times a column to `sums`; the sums of all rows side by side.
    auto addRows = [&](SmallVector<Value> &sums, Value part, ArrayRef<Value> factors) {
      for (int64_t k = 0; k < block; k += kLoaded) {
        SmallVector<SmallVector<Value>> loaded;
        for (int64_t slot = 0; slot < block / sharing; ++slot)
          loaded.push_back(
              b.unpack(b.load(some, b.at(rowOf(part, slot), byte, k * sizeof(float)))));
        for (int64_t i = 0; i < kLoaded; ++i)
          for (auto [sum, row] : llvm::zip(sums, loaded))
            sum = b.make<math::FmaOp>(row[i], factors[k + i], sum);
      }
    };
    SmallVector<Value> left, own, all;
    for (int64_t k = 0; k < block; ++k)
      left.push_back(b.load(f32, b.at(b.at(upper, byte, inColumn), byte, k * from.pitch)));
    for (int64_t slot = 0; slot < block / sharing; ++slot)
      own.push_back(b.load(f32, b.at(rowOf(below, slot), byte, inColumn)));
    addRows(own, below, left);
    Value firstLane = b.sub(lane, first);
    for (int64_t k = 0; k < block; ++k)
      all.push_back(shuffle(own[k / sharing], b.add(firstLane, k % sharing), gpu::ShuffleMode::IDX));
    if (inPlace)
      barrier();
    addRows(own, lower, all);
    Value target = b.at(b.at(pairOf(to), byte, block * to.pitch), byte, inColumn);
    b.onlyIf(isSharing, [&] {
      for (auto [slot, merged] : llvm::enumerate(own)) {
        Value row = b.add(b.mul(first, to.pitch), int64_t(slot) * sharing * to.pitch);
        b.store(merged, b.at(target, byte, row));
      }
    });
  }
  tiles[op.getResult()] = to;
}
