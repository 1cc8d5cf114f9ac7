//===- TileSplitDot.cpp - matmuls of f32 operands by mma.sync --------------===//
//
// Emits tile.dot of f32 operands as matmuls of their bf16 terms. Operands lie in shared memory in
// f32, which takes fewer bytes than three terms would. A warp splits what it loads of them, in
// registers. `ldmatrix` distributes 16-bit elements, so f32 ones are loaded as they are.
//
// A lane 4g + t of a warp has, of each 16×16 block of an operand, rows g and g + 8 across the
// result, and of each the steps s(t, 0), s(t, 1) along K in one word of `mma.sync` and s(t, 2),
// s(t, 3) in another. In which order the steps of K are summed is free, as long as A and B agree:
//
//   both operands' rows run along K    s(t, i) = 2t, 2t + 1, 2t + 8, 2t + 9: pairs in memory
//   otherwise                          s(t, i) = t + 4i: 32 lanes on 32 banks, since rows of f32
//                                      are 32 bytes more than a multiple of 64 apart
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The 16×16 blocks of the result that are computed at a time. Each takes 16 registers of a thread
/// for sums, beside those of `acc`, and 12 for the terms of an operand. The more there are, the
/// fewer blocks of operands are split again.
static constexpr unsigned kBlocksAtOnce = 2;

/// Where a lane finds its elements of an f32 operand in shared memory.
struct TileEmitter::SplitOperand {
  Value address; // of the lane's first element in the first block
  unsigned pitch;
  bool rowsAcross;
  bool inPairs; // the order of the steps along K
};

TileEmitter::SplitOperand TileEmitter::splitOperand(const Placed &tile, bool rowsAcross,
                                                    bool inPairs, Value part) {
  Value across = b.add(group, part), along = inPairs ? b.mul(member, 2) : member;
  Value row = rowsAcross ? across : along, column = rowsAcross ? along : across;
  return {b.at(tile.address, b.getI8Type(), b.add(b.mul(row, tile.pitch), b.mul(column, 4))),
          tile.pitch, rowsAcross, inPairs};
}

/// The terms of the operand's block at (across, along): of each its four words, in the order of
/// operand A or of two adjacent blocks of B.
SmallVector<SmallVector<Value>> TileEmitter::loadTerms(const SplitOperand &operand, bool isLeft,
                                                       int64_t across, Value along,
                                                       unsigned count) {
  Value start = b.at(operand.address, b.getI8Type(),
                     b.mul(along, operand.rowsAcross ? 4 : int64_t(operand.pitch)));
  auto addressOf = [&](int64_t rowAcross, int64_t step) {
    int64_t row = operand.rowsAcross ? rowAcross : step;
    int64_t column = operand.rowsAcross ? step : rowAcross;
    return b.at(start, b.getI8Type(), row * operand.pitch + column * 4);
  };
  SmallVector<SmallVector<Value>> terms(count);
  for (int64_t word = 0; word < 4; ++word) {
    // A: both halves of its rows, then those of the next steps. B: the other way round.
    int64_t rowHalf = isLeft ? word % 2 : word / 2, stepHalf = isLeft ? word / 2 : word % 2;
    int64_t rowAcross = across + 8 * rowHalf, step = 8 * stepHalf;
    SmallVector<Value> rest;
    if (operand.inPairs)
      rest = b.unpack(b.load(VectorType::get({2}, b.getF32Type()), addressOf(rowAcross, step)));
    else
      for (int64_t i : {0, 4})
        rest.push_back(b.load(b.getF32Type(), addressOf(rowAcross, step + i)));
    for (unsigned term = 0; term < count; ++term) {
      SmallVector<Value> rounded = roundPairs(rest, b.getBF16Type());
      terms[term].push_back(b.make<LLVM::BitcastOp>(b.getI32Type(), b.pack(rounded)));
      if (term + 1 < count)
        for (auto [left, wide] : llvm::zip(rest, widenPairs(rounded)))
          left = b.make<arith::SubFOp>(left, wide);
    }
  }
  return terms;
}

void TileEmitter::emitSplitDot(DotOp op, const MatmulOperands &operands) {
  DotAlgorithm algorithm = *op.getAlgorithm();
  unsigned count = DotOp::termsOf(algorithm);
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  Fragments f = Fragments::of(result.type, result.layout);
  const Placed &acc = placed(op.getAcc());
  bool fromZero = matchPattern(op.getAcc(), m_PosZeroFloat());
  Placed left = placed(operands.left), right = placed(operands.right);
  bool leftAcross = operands.rowsAcross(left.layout, /*isLeft=*/true);
  bool rightAcross = operands.rowsAcross(right.layout, /*isLeft=*/false);
  bool inPairs = leftAcross && rightAcross;
  SplitOperand lhs = splitOperand(left, leftAcross, inPairs, partRow(f));
  SplitOperand rhs = splitOperand(right, rightAcross, inPairs, partColumn(f));

  result.elements.resize(f.size());
  unsigned columns = std::min(kBlocksAtOnce, f.columnTiles() / 2);
  unsigned rows = std::min(kBlocksAtOnce / columns, f.rowTiles());
  for (unsigned m0 = 0; m0 < f.rowTiles(); m0 += rows)
    for (unsigned pair0 = 0; pair0 < f.columnTiles() / 2; pair0 += columns) {
      // A block of the result: products of first terms in its first half, then those of later ones.
      Fragments block = f;
      unsigned mCount = std::min(rows, f.rowTiles() - m0);
      unsigned pairs = std::min(columns, f.columnTiles() / 2 - pair0);
      block.rows = 16 * mCount, block.columns = 16 * pairs;
      block.rowParts = block.columnParts = 1;
      SmallVector<Value> zeros(2 * block.size(), b.f32(0.0));
      // A loop: unrolled, terms of one matmul would stay in registers for the next.
      SmallVector<Value> sums = b.loop(
          b.i32(operands.first), b.i32(operands.last), DotOp::kStep, zeros,
          [&](Value along, ValueRange carried) {
            SmallVector<Value> first(carried.take_front(block.size())),
                later(carried.drop_front(block.size()));
            SmallVector<SmallVector<SmallVector<Value>>> blocks;
            for (unsigned m = 0; m < mCount; ++m) {
              unsigned offset = f.rowOffset(2 * (m0 + m));
              blocks.push_back(loadTerms(lhs, /*isLeft=*/true, offset, along, count));
              for (SmallVector<Value> &words : blocks.back())
                words = zeroBeyond(words, 16, partRow(f), offset, operands.rows);
            }
            for (unsigned pair = 0; pair < pairs; ++pair) {
              unsigned offset = 16 * (pair0 + pair);
              auto terms = loadTerms(rhs, /*isLeft=*/false, offset, along, count);
              for (SmallVector<Value> &words : terms)
                words = zeroBeyond(words, 16, partColumn(f), offset, operands.columns);
              DotOp::forEachProduct(algorithm, [&](unsigned x, unsigned y) {
                for (unsigned m = 0; m < mCount; ++m)
                  multiply(x + y ? later : first, block, m, pair, blocks[m][x], terms[y],
                           b.getBF16Type());
              });
            }
            first.append(later);
            return first;
          });
      SmallVector<Value> complete(block.size());
      auto forEach = [&](llvm::function_ref<void(unsigned, unsigned)> visit) {
        for (unsigned m = 0; m < mCount; ++m)
          for (unsigned n = 0; n < 2 * pairs; ++n)
            for (unsigned i = 0; i < 4; ++i)
              visit(block.index(m, n, i), f.index(m0 + m, 2 * pair0 + n, i));
      };
      forEach([&](unsigned own, unsigned at) {
        Value sum = b.make<arith::AddFOp>(sums[own], sums[block.size() + own]);
        complete[own] = fromZero ? sum : b.make<arith::AddFOp>(element(acc, at), sum).getResult();
      });
      // LLVM would move the additions to where the result is used, and both sums would stay live.
      complete = materializeHere(complete);
      forEach([&](unsigned own, unsigned at) { result.elements[at] = complete[own]; });
    }
  tiles[op.getResult()] = result;
}
