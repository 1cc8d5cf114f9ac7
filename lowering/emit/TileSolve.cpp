//===- TileSolve.cpp - what solves take beside matmuls --------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Each thread has one column of a block, and substitutes in registers. The lanes that share a
/// block read the same numbers of it at a time.
void TileEmitter::emitInvertDiagonal(InvertDiagonalOp op) {
  constexpr int64_t some = 4;
  int64_t rows = op.getType().getDimSize(0), block = InvertDiagonalOp::blockOf(rows);
  Placed from = placed(op.getMatrix());
  Placed to = sharedFor(op.getResult());
  Type f32 = b.getF32Type(), byte = b.getI8Type();
  Value number = b.add(b.mul(warp, kWarpSize), lane);
  b.onlyIf(b.less(number, rows), [&] {
    Value own = b.div(number, block), column = b.rem(number, block);
    Value source = b.at(from.address, byte, b.mul(own, block * (from.pitch + sizeof(float))));
    SmallVector<Value> x; // with the 1 on the diagonal
    for (int64_t i = 0; i < block; ++i) {
      Value sum = b.f32(0);
      for (int64_t first = 0; first < i; first += some) {
        Value loaded = b.load(KernelBuilder::withCount(f32, some),
                              b.at(source, byte, i * from.pitch + first * sizeof(float)));
        for (auto [k, factor] : llvm::enumerate(b.unpack(loaded)))
          if (first + int64_t(k) < i)
            sum = b.make<math::FmaOp>(factor, x[first + k], sum);
      }
      x.push_back(b.make<arith::SelectOp>(b.equal(column, i), b.f32(1), sum));
    }
    Value target = b.at(to.address, f32, number);
    for (int64_t row = 0; row < rows; ++row) {
      Value isOwn = b.both(b.equal(own, row / block), b.less(column, row % block));
      b.store(b.make<arith::SelectOp>(isOwn, x[row % block], b.f32(0)),
              b.at(target, byte, row * to.pitch));
    }
  });
  tiles[op.getResult()] = to;
}
