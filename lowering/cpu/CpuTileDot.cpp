//===- CpuTileDot.cpp - matmuls of a block program on a CPU ---------------===//
#include "lowering/cpu/CpuTileEmitter.h"

using namespace mlir;
using namespace ejk;

/// Pairs along the sum that one iteration multiplies.
static constexpr int64_t kUnroll = 4;

/// A register of 32-bit words as pairs of bf16.
Value CpuTileEmitter::asPairs(Value words) {
  return b.make<LLVM::BitcastOp>(VectorType::get({2 * kLanes}, b.getBF16Type()), words);
}

/// Two registers of f32, rounded to one of bf16.
Value CpuTileEmitter::roundBoth(Value low, Value high) {
  return b
      .make<LLVM::CallIntrinsicOp>(VectorType::get({2 * kLanes}, b.getBF16Type()),
                                   b.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
                                   ValueRange{high, low})
      .getResult(0);
}

/// Rounds a block of f32, and stores its pairs of rows in a pack of `columns` columns.
void CpuTileEmitter::storeRowPairs(const Area &at, const Block &block, int64_t columns,
                                   Value pack) {
  SmallVector<int64_t> interleaved;
  for (int64_t i = 0; i < kLanes; ++i)
    interleaved.append({i, i + kLanes});
  for (int64_t r = 0; r < at.rows; r += 2)
    for (int64_t v = 0; v < at.vectors; ++v) {
      Value both = roundBoth(block[r * at.vectors + v], block[(r + 1) * at.vectors + v]);
      Value pairs = b.make<vector::ShuffleOp>(both, both, interleaved);
      Value offset = b.add(b.mul(b.add(at.row, r), columns),
                           b.mul(b.add(at.column, v * kLanes), 2));
      b.make<LLVM::StoreOp>(pairs, b.at(pack, b.getBF16Type(), offset), 64);
    }
}

/// Packs a state that is in memory.
void CpuTileEmitter::packWhole(Value tile, Value pack) {
  b.loop(b.i64(0), b.i64(dim(tile, 0)), 2, {}, [&](Value row, ValueRange) {
    b.loop(b.i64(0), b.i64(dim(tile, 1)), 2 * kLanes, {}, [&](Value column, ValueRange) {
      Area at{row, column, 2, 2};
      storeRowPairs(at, evaluate(tile, at), dim(tile, 1), pack);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}

/// The rounding of a carried state that a matmul reads by pairs of rows; null if none does. What
/// computes the state then also packs it, while it is in registers.
Value CpuTileEmitter::matmulOperandOf(Value state) {
  for (Operation *user : state.getUsers()) {
    auto round = dyn_cast<arith::TruncFOp>(user);
    if (!round || !elementOf(round.getOut()).isBF16())
      continue;
    for (Operation *reader : round->getUsers())
      if (auto dot = dyn_cast<tile::DotOp>(reader))
        if (dot.getRhs() == round.getOut() && !dot.getRhsTransposed())
          return round.getOut();
  }
  return {};
}

/// Rows 2k and 2k+1 of `tile` interleaved, for each k.
Value CpuTileEmitter::rowPairs(Value tile) {
  Value &pack = rowPacks[tile];
  if (pack)
    return pack;
  int64_t numRows = dim(tile, 0), columns = dim(tile, 1);
  Value made = allocate(numRows * columns * 2);
  prepare(tile);
  auto round = isPending(tile) ? tile.getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
  SmallVector<int64_t> interleaved;
  for (int64_t i = 0; i < kLanes; ++i)
    interleaved.append({i, i + kLanes});
  b.loop(b.i64(0), b.i64(numRows), 2, {}, [&](Value row, ValueRange) {
    b.loop(b.i64(0), b.i64(columns), 2 * kLanes, {}, [&](Value column, ValueRange) {
      Area at{row, column, 2, 2};
      if (round) {
        storeRowPairs(at, evaluate(round.getIn(), at), columns, made);
        return SmallVector<Value>();
      }
      Block block = evaluate(tile, at);
      for (int64_t v = 0; v < 2; ++v) {
        Value pairs = b.make<vector::ShuffleOp>(block[v], block[2 + v], interleaved);
        Value offset = b.add(b.mul(row, columns), b.mul(b.add(column, v * kLanes), 2));
        b.make<LLVM::StoreOp>(pairs, b.at(made, b.getBF16Type(), offset), 64);
      }
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  return rowPacks[tile] = made;
}

/// The words of `tile`, which are pairs of its columns, turned.
Value CpuTileEmitter::columnPairs(Value tile) {
  Value &pack = columnPacks[tile];
  if (pack)
    return pack;
  inMemory(tile);
  int64_t numRows = dim(tile, 0), words = dim(tile, 1) / 2;
  Value made = allocate(numRows * words * 4);
  Type word = b.getI32Type(), line = VectorType::get({kLanes}, word);
  b.loop(b.i64(0), b.i64(numRows), kLanes, {}, [&](Value row, ValueRange) {
    b.loop(b.i64(0), b.i64(words), kLanes, {}, [&](Value column, ValueRange) {
      SmallVector<Value> square;
      for (int64_t i = 0; i < kLanes; ++i)
        square.push_back(b.loadLanes(line, place(tile, b.add(row, i), b.mul(column, 2))));
      b.transpose(square);
      for (int64_t i = 0; i < kLanes; ++i)
        b.make<LLVM::StoreOp>(
            square[i], b.at(made, word, b.add(b.mul(b.add(column, i), numRows), row)), 64);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  return columnPacks[tile] = made;
}

/// The mask that leaves zeros in `tile`, on one side of its diagonal; null where there is none.
/// A product with zeros is taken for zero: what it multiplies is finite, or of a later step.
tile::MaskOp CpuTileEmitter::maskOf(Value tile) const {
  Operation *op = tile.getDefiningOp();
  if (auto mask = dyn_cast_or_null<tile::MaskOp>(op))
    return mask.getOtherwise().isZero() ? mask : tile::MaskOp();
  if (isa_and_nonnull<math::ExpOp, math::Exp2Op>(op)) {
    auto mask = op->getOperand(0).getDefiningOp<tile::MaskOp>();
    bool leavesZeros = mask && mask.getOtherwise().isInfinity() && mask.getOtherwise().isNegative();
    return leavesZeros ? mask : tile::MaskOp();
  }
  if (isa_and_nonnull<arith::TruncFOp, arith::MulFOp>(op))
    for (Value operand : op->getOperands())
      if (tile::MaskOp mask = isTile(operand) ? maskOf(operand) : tile::MaskOp())
        return mask;
  return {};
}

/// A block of a matmul's result: all of its sums in registers.
CpuTileEmitter::Block CpuTileEmitter::evaluateDot(tile::DotOp op, const Area &at) {
  bool turnsLhs = op.getLhsTransposed(), turnsRhs = op.getRhsTransposed();
  int64_t lhsRows = dim(op.getResult(), 0), columns = dim(op.getResult(), 1);
  Value lhs = (turnsLhs ? rowPacks : columnPacks).lookup(op.getLhs());
  Value rhs = (turnsRhs ? columnPacks : rowPacks).lookup(op.getRhs());
  Type word = b.getI32Type(), line = VectorType::get({kLanes}, word);
  auto [from, to] = op.getRange();
  Value first = b.i64(from / 2), last = b.i64(to / 2);
  // Past the diagonal of a triangle there are zeros.
  if (tile::MaskOp mask = turnsLhs || op.getOver() ? tile::MaskOp() : maskOf(op.getLhs())) {
    int64_t step = 2 * kUnroll;
    if (mask.getUpper())
      first = b.mul(b.div(at.row, step), kUnroll);
    else
      last = b.mul(b.div(b.add(at.row, at.rows + step - 1), step), kUnroll);
  }
  return b.loop(first, last, kUnroll, evaluate(op.getAcc(), at), [&](Value start, ValueRange sums) {
    Block next(sums);
    for (int64_t u = 0; u < kUnroll; ++u) {
      Value pair = b.add(start, u);
      SmallVector<Value> right;
      for (int64_t v = 0; v < at.vectors; ++v) {
        Value offset = b.add(b.mul(pair, columns), b.add(at.column, v * kLanes));
        right.push_back(asPairs(b.loadLanes(line, b.at(rhs, word, offset))));
      }
      for (int64_t r = 0; r < at.rows; ++r) {
        Value row = b.add(at.row, r);
        Value address = lhs ? b.at(lhs, word, b.add(b.mul(pair, lhsRows), row))
                            : place(op.getLhs(), row, b.mul(pair, 2));
        Value left = asPairs(b.splat(b.loadLanes(word, address), kLanes));
        for (int64_t v = 0; v < at.vectors; ++v) {
          Value &sum = next[r * at.vectors + v];
          sum = b.make<LLVM::CallIntrinsicOp>(
                     sum.getType(), b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                     ValueRange{sum, left, right[v]})
                    .getResult(0);
        }
      }
    }
    return next;
  });
}
