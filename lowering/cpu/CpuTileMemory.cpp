//===- CpuTileMemory.cpp - rows, and sums along time, on a CPU ------------===//
#include "lowering/cpu/CpuTileEmitter.h"
#include "dialect/ejk/Searches.h"

using namespace mlir;
using namespace ejk;

/// How many of a tile's `rows` rows, of which row `first` of the sequence is the first, there are.
Value CpuTileEmitter::validRows(Value first, int64_t numRows) {
  return b.max(b.min(b.sub(length, first), b.i64(numRows)), b.i64(0));
}

/// Whole chunks of rows stay where they are. Of a chunk with fewer rows there is a copy, with
/// zeros in place of those that are not there.
void CpuTileEmitter::load(tile::LoadOp op) {
  accesses.push_back(op);
  Value tile = op.getResult(), first = asI64(op.getFirst()), made = allocateFor(tile);
  buffers[tile] = made;
  const Rows &source = rows.find(op.getRows())->second;
  int64_t numRows = dim(tile, 0), columns = rank(tile) == 2 ? dim(tile, 1) : 1;
  Value begin = b.i64(0), end = validRows(first, numRows);
  if (source.shift > 0)
    begin = b.min(b.max(b.sub(b.i64(source.shift), first), begin), end);
  else if (source.shift < 0)
    end = validRows(b.sub(first, source.shift), numRows);
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
  auto copyAll = [&] {
    auto none = [&](Value, Value) { return b.zero(type); };
    auto from = [&](Value base, Value stride) {
      return [&, base, stride](Value row, Value column) {
        Value offset = b.add(b.mul(b.add(first, row), stride), column);
        return b.loadLanes(type, b.at(base, source.element, offset));
      };
    };
    Value after = end;
    if (source.shift > 0 && source.haloBase)
      copy(b.i64(0), begin, from(source.haloBase, source.haloStride));
    else if (source.shift > 0)
      copy(b.i64(0), begin, none);
    copy(begin, end, from(source.base, source.stride));
    if (source.shift < 0 && source.haloBase)
      copy(end, after = validRows(first, numRows), from(source.haloBase, source.haloStride));
    copy(after, b.i64(numRows), none);
  };
  if (rank(tile) == 1)
    return copyAll();
  Value hasFew = b.less(source.shift > 0 ? b.sub(end, begin) : end, numRows);
  b.onlyIf(hasFew, copyAll);
  Value rows = b.at(source.base, source.element, b.mul(first, source.stride));
  buffers[tile] = b.make<arith::SelectOp>(hasFew, made, rows);
  strides[tile] = b.make<arith::SelectOp>(hasFew, b.i64(columns), source.stride);
}

/// Whether a matmul is computed for each block of `tile`.
static bool hasMatmul(Value tile) {
  return meetsAmongOperands(tile, [](Value part) {
    Operation *op = part.getDefiningOp();
    if (!op || !isa<VectorType>(part.getType()))
      return Met::nothing;
    return isa<tile::DotOp>(op)                          ? Met::wanted
           : OpTrait::hasElementwiseMappableTraits(op) ? Met::more
                                                         : Met::nothing;
  });
}

/// Whether the blocks of `tile`, a matmul's, take long enough for rows of the next chunk each.
bool CpuTileEmitter::mayPrefetch(Value tile) const {
  return !accesses.empty() && isPending(tile) && hasMatmul(tile);
}

/// Asks for the part of the next chunk's rows that falls to a block of a tile: the processor does
/// not see them coming, since rows of a head lie far apart, and has few slots for requests.
void CpuTileEmitter::prefetchNext(Value block, int64_t blocks) {
  for (Operation *op : accesses) {
    if (auto load = dyn_cast<tile::LoadOp>(op))
      prefetchRows(load.getResult(), load.getRows(), load.getFirst(), false, block, blocks);
    else if (auto store = dyn_cast<tile::StoreOp>(op))
      prefetchRows(store.getTile(), store.getRows(), store.getFirst(), true, block, blocks);
  }
}

/// Of the rows of `tile`, which are loaded from or stored to `memory` from row `index` on.
void CpuTileEmitter::prefetchRows(Value tile, Value memory, Value index, bool isWritten,
                                  Value block, int64_t blocks) {
  constexpr int64_t kCacheLine = 64;
  const Rows &source = rows.find(memory)->second;
  int64_t numRows = dim(tile, 0), columns = rank(tile) == 2 ? dim(tile, 1) : 1;
  int64_t inLine = kCacheLine / CpuBuilder::elementBytes(source.element);
  // Chunks are counted from the first row on, or from the last one back.
  auto product = index.getDefiningOp<arith::MulIOp>();
  bool isForward = product && isa<BlockArgument>(product.getLhs());
  Value own = b.div(b.mul(block, numRows), blocks);
  for (int64_t i = 0, count = llvm::divideCeil(numRows, blocks); i < count; ++i) {
    Value row = b.add(asI64(index), b.add(own, i + (isForward ? numRows : -numRows)));
    row = b.max(b.min(row, b.sub(length, 1)), b.i64(0));
    Value start = b.mul(row, source.stride);
    for (int64_t column = 0; column < columns; column += inLine)
      b.make<LLVM::Prefetch>(b.at(source.base, source.element, b.add(start, column)),
                             b.getI32IntegerAttr(isWritten), b.getI32IntegerAttr(2),
                             b.getI32IntegerAttr(1));
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
  accesses.push_back(op);
  forEachBlock(tile, [&](const Area &at, const Block &block) {
    for (int64_t r = 0; r < at.rows; ++r) {
      Value row = b.add(at.row, r);
      b.onlyIf(b.less(row, count), [&] {
        storeRow(at, block, r, [&](Value column) { return placeOf(row, column); });
      });
    }
  });
}

/// How many of a row's registers go side by side: up to 8, and in whole numbers.
static int64_t widthOf(int64_t registers) {
  int64_t width = std::min<int64_t>(registers, 8);
  while (registers % width)
    --width;
  return width;
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
  // Several sums side by side hide an addition's latency, and read whole rows.
  int64_t width = widthOf(columns / lanes);
  b.loop(b.i64(0), b.i64(columns), width * lanes, {}, [&](Value column, ValueRange) {
    auto at = [&](Value source, Value row, int64_t i) {
      Value start = b.add(column, i * lanes);
      return columns == 1 ? place(source, {}, row) : place(source, row, start);
    };
    if (zero >= 0 && zero < numRows)
      for (int64_t i = 0; i < width; ++i)
        b.storeLanes(b.zero(type), at(result, b.i64(zero), i));
    // Row `row` differs from its neighbour on the zero's side by one term.
    auto walk = [&](int64_t count, bool isUp) {
      bool ownTerm = isUp ? exclusive == reverse : exclusive != reverse;
      bool adds = isUp != reverse;
      SmallVector<Value> zeros(width, b.zero(type));
      b.loop(b.i64(0), b.i64(count), 1, zeros, [&](Value step, ValueRange sums) {
        Value row = isUp ? b.add(step, zero + 1) : b.sub(b.i64(zero - 1), step);
        Value from = ownTerm ? row : isUp ? b.sub(row, 1) : b.add(row, 1);
        SmallVector<Value> next;
        for (int64_t i = 0; i < width; ++i) {
          Value term = b.loadLanes(type, at(tile, from, i));
          next.push_back(adds ? b.addF(sums[i], term)
                              : b.make<arith::SubFOp>(sums[i], term).getResult());
          b.storeLanes(next[i], at(result, row, i));
        }
        return next;
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

/// Compares the largest magnitude with the bound: as integers, so that a NaN is larger than any.
Value CpuTileEmitter::guardRange(tile::RangeGuardOp op) {
  Value isWithin = b.make<arith::ConstantOp>(b.getBoolAttr(true));
  Value bound = b.make<arith::BitcastOp>(b.getI32Type(), b.f32(op.getBound().convertToDouble()));
  for (Value tile : op.getTiles()) {
    inMemory(tile);
    int64_t columns = dim(tile, rank(tile) - 1), numRows = rank(tile) == 2 ? dim(tile, 0) : 1;
    int64_t lanes = columns % kLanes ? columns : kLanes, width = widthOf(columns / lanes);
    Type type = CpuBuilder::withCount(b.getF32Type(), lanes);
    Type integers = CpuBuilder::withCount(b.getI32Type(), lanes);
    SmallVector<Value> most(width, b.zero(integers));
    most = b.loop(b.i64(0), b.i64(numRows), 1, most, [&](Value row, ValueRange outer) {
      return b.loop(b.i64(0), b.i64(columns), width * lanes, llvm::to_vector(outer),
                    [&](Value column, ValueRange inner) {
                      Block next;
                      for (int64_t i = 0; i < width; ++i) {
                        Value x = b.loadLanes(type, place(tile, row, b.add(column, i * lanes)));
                        Value size = b.make<arith::BitcastOp>(integers, b.make<math::AbsFOp>(x));
                        next.push_back(b.make<arith::MaxUIOp>(size, inner[i]));
                      }
                      return next;
                    });
    });
    Value largest = most.front();
    for (Value other : ArrayRef(most).drop_front())
      largest = b.make<arith::MaxUIOp>(largest, other);
    if (lanes > 1)
      largest = b.make<vector::ReductionOp>(vector::CombiningKind::MAXUI, largest);
    Value fits = b.make<arith::CmpIOp>(arith::CmpIPredicate::ule, largest, bound);
    isWithin = b.both(isWithin, fits);
  }
  return isWithin;
}
