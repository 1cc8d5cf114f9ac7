//===- CpuTileMemory.cpp - rows, and sums along time, on a CPU ------------===//
#include "lowering/cpu/CpuTileEmitter.h"

using namespace mlir;
using namespace ejk;

/// How many of a tile's `rows` rows, of which row `first` of the sequence is the first, there are.
Value CpuTileEmitter::validRows(Value first, int64_t numRows) {
  return b.max(b.min(b.sub(length, first), b.i64(numRows)), b.i64(0));
}

void CpuTileEmitter::load(tile::LoadOp op) {
  loads.push_back(op);
  Value tile = op.getResult(), first = asI64(op.getFirst()), made = allocateFor(tile);
  buffers[tile] = made;
  const Rows &source = rows.find(op.getRows())->second;
  int64_t numRows = dim(tile, 0), columns = rank(tile) == 2 ? dim(tile, 1) : 1;
  Value count = validRows(first, numRows);
  int64_t lanes = columns == 1 ? 1 : kLanes;
  Type type = CpuBuilder::withCount(source.element, lanes);
  auto copy = [&](Value from, Value to, llvm::function_ref<Value(Value row, Value column)> value) {
    b.loop(from, to, 1, {}, [&](Value row, ValueRange) {
      b.loop(b.i64(0), b.i64(columns), lanes, {}, [&](Value column, ValueRange) {
        Value offset = b.add(b.mul(row, columns), column);
        b.storeLanes(value(row, column), b.at(made, source.element, offset));
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  };
  copy(b.i64(0), count, [&](Value row, Value column) {
    Value offset = b.add(b.mul(b.add(first, row), source.stride), column);
    return b.loadLanes(type, b.at(source.base, source.element, offset));
  });
  copy(count, b.i64(numRows), [&](Value, Value) { return b.zero(type); });
}

/// Whether a matmul is computed for each block of `tile`.
static bool hasMatmul(Value tile) {
  Operation *op = tile.getDefiningOp();
  return op && isa<VectorType>(tile.getType()) &&
         (isa<tile::DotOp>(op) ||
          (OpTrait::hasElementwiseMappableTraits(op) &&
           llvm::any_of(op->getOperands(), [](Value operand) { return hasMatmul(operand); })));
}

/// Whether the blocks of `tile`, a matmul's, take long enough for a row of the next chunk each.
bool CpuTileEmitter::mayPrefetch(Value tile) const {
  if (loads.empty() || !isPending(tile) || !hasMatmul(tile))
    return false;
  tile::LoadOp load = loads.front();
  return dim(tile, 0) >= dim(load.getResult(), 0);
}

/// Asks for the part of the next chunk's rows that falls to a block of a tile: the processor does
/// not see them coming, since rows of a head lie far apart, and has few slots for requests.
void CpuTileEmitter::prefetchNext(Value block, int64_t blocks) {
  constexpr int64_t kCacheLine = 64;
  for (tile::LoadOp op : loads) {
    const Rows &source = rows.find(op.getRows())->second;
    Value tile = op.getResult();
    int64_t numRows = dim(tile, 0), columns = rank(tile) == 2 ? dim(tile, 1) : 1;
    int64_t inLine = kCacheLine / CpuBuilder::elementBytes(source.element);
    // Chunks are counted from the first row on, or from the last one back.
    auto product = op.getFirst().getDefiningOp<arith::MulIOp>();
    bool isForward = product && isa<BlockArgument>(product.getLhs());
    Value own = b.div(b.mul(block, numRows), blocks);
    Value row = b.add(asI64(op.getFirst()), b.add(own, isForward ? numRows : -numRows));
    row = b.max(b.min(row, b.sub(length, 1)), b.i64(0));
    Value start = b.mul(row, source.stride);
    for (int64_t column = 0; column < columns; column += inLine)
      b.make<LLVM::Prefetch>(b.at(source.base, source.element, b.add(start, column)),
                             b.getI32IntegerAttr(0), b.getI32IntegerAttr(2), b.getI32IntegerAttr(1));
  }
}

void CpuTileEmitter::store(tile::StoreOp op) {
  Value tile = op.getTile(), first = asI64(op.getFirst());
  auto found = rows.find(op.getRows());
  if (found == rows.end())
    return; // nobody takes it
  const Rows &target = found->second;
  Value count = validRows(first, dim(tile, 0));
  auto placeOf = [&](Value row, Value column) {
    Value offset = b.add(b.mul(b.add(first, row), target.stride), column);
    return b.at(target.base, target.element, offset);
  };
  if (rank(tile) == 1) {
    inMemory(tile);
    b.loop(b.i64(0), count, 1, {}, [&](Value row, ValueRange) {
      b.storeLanes(evaluateLine(tile, row, 1), placeOf(row, b.i64(0)));
      return SmallVector<Value>();
    });
    return;
  }
  forEachBlock(tile, [&](const Area &at, const Block &block) {
    for (int64_t r = 0; r < at.rows; ++r) {
      Value row = b.add(at.row, r);
      b.onlyIf(b.less(row, count), [&] {
        for (int64_t v = 0; v < at.vectors; ++v)
          b.storeLanes(block[r * at.vectors + v], placeOf(row, b.add(at.column, v * kLanes)));
      });
    }
  });
}

/// Sums from the row that is zero on, up and down: no sum has terms from both of its sides.
void CpuTileEmitter::cumulate(tile::CumsumOp op) {
  Value tile = op.getTile(), result = op.getResult();
  inMemory(tile);
  Value made = allocateFor(result);
  buffers[result] = made;
  int64_t numRows = dim(result, 0), columns = rank(result) == 2 ? dim(result, 1) : 1;
  int64_t lanes = columns == 1 ? 1 : kLanes;
  bool reverse = op.getReverse(), exclusive = op.getExclusive();
  int64_t zero = reverse ? numRows : -1; // the row that is, or would be, zero
  if (op.getFrom())
    zero = *op.getFrom();
  else if (exclusive)
    zero = reverse ? numRows - 1 : 0;
  Type type = CpuBuilder::withCount(b.getF32Type(), lanes);
  b.loop(b.i64(0), b.i64(columns), lanes, {}, [&](Value column, ValueRange) {
    auto at = [&](Value source, Value row) {
      return b.at(buffers.lookup(source), b.getF32Type(), b.add(b.mul(row, columns), column));
    };
    if (zero >= 0 && zero < numRows)
      b.storeLanes(b.zero(type), at(result, b.i64(zero)));
    // Row `row` differs from its neighbour on the zero's side by one term.
    auto walk = [&](int64_t count, bool isUp) {
      bool ownTerm = isUp ? exclusive == reverse : exclusive != reverse;
      bool adds = isUp != reverse;
      b.loop(b.i64(0), b.i64(count), 1, b.zero(type), [&](Value step, ValueRange sum) {
        Value row = isUp ? b.add(step, zero + 1) : b.sub(b.i64(zero - 1), step);
        Value from = ownTerm ? row : isUp ? b.sub(row, 1) : b.add(row, 1);
        Value term = b.loadLanes(type, at(tile, from));
        Value next = adds ? b.addF(sum[0], term)
                          : b.make<arith::SubFOp>(sum[0], term).getResult();
        b.storeLanes(next, at(result, row));
        return SmallVector<Value>{next};
      });
    };
    if (zero < numRows - 1)
      walk(numRows - 1 - zero, /*isUp=*/true);
    if (zero > 0)
      walk(zero, /*isUp=*/false);
    return SmallVector<Value>();
  });
}

void CpuTileEmitter::sum(tile::SumOp op) {
  Value tile = op.getTile(), result = op.getResult();
  Value made = allocateFor(result);
  prepare(tile);
  int64_t numRows = dim(tile, 0), columns = dim(tile, 1);
  Value zero = b.number(0, kLanes);
  auto sumOf = [&](Value row, Value column, Value sum) {
    return b.addF(sum, evaluate(tile, {row, column, 1, 1})[0]);
  };
  if (op.getDim() == 0) {
    b.loop(b.i64(0), b.i64(columns), kLanes, {}, [&](Value column, ValueRange) {
      SmallVector<Value> total =
          b.loop(b.i64(0), b.i64(numRows), 1, zero, [&](Value row, ValueRange sum) {
            return SmallVector<Value>{sumOf(row, column, sum[0])};
          });
      b.storeLanes(total[0], b.at(made, b.getF32Type(), column));
      return SmallVector<Value>();
    });
  } else {
    b.loop(b.i64(0), b.i64(numRows), 1, {}, [&](Value row, ValueRange) {
      SmallVector<Value> total =
          b.loop(b.i64(0), b.i64(columns), kLanes, zero, [&](Value column, ValueRange sum) {
            return SmallVector<Value>{sumOf(row, column, sum[0])};
          });
      b.storeLanes(b.sumLanes(total[0]), b.at(made, b.getF32Type(), row));
      return SmallVector<Value>();
    });
  }
  buffers[result] = made;
}

/// Counts the elements that exceed the bound or are NaN.
Value CpuTileEmitter::guardRange(tile::RangeGuardOp op) {
  Value count = b.f32(0);
  double bound = op.getBound().convertToDouble();
  for (Value tile : op.getTiles()) {
    inMemory(tile);
    int64_t elements = cast<VectorType>(tile.getType()).getNumElements();
    int64_t lanes = elements % kLanes ? elements : kLanes;
    Type type = CpuBuilder::withCount(b.getF32Type(), lanes);
    Value zero = b.zero(type), one = b.number(1, lanes);
    SmallVector<Value> total =
        b.loop(b.i64(0), b.i64(elements), lanes, zero, [&](Value first, ValueRange sum) {
          Value x = b.loadLanes(type, b.at(buffers.lookup(tile), b.getF32Type(), first));
          Value size = b.make<math::AbsFOp>(x);
          Value isWithin =
              b.make<arith::CmpFOp>(arith::CmpFPredicate::OLE, size, b.number(bound, lanes));
          Value term = b.make<arith::SelectOp>(isWithin, zero, one);
          return SmallVector<Value>{b.addF(sum[0], term)};
        });
    count = b.addF(count, b.sumLanes(total[0]));
  }
  return b.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, count, b.f32(0));
}
