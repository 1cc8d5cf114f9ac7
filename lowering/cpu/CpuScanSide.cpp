//===- CpuScanSide.cpp - reads along the columns of a state ---------------===//
//
// A scan may read its states along the columns, too, where outputs alone take what it reads: the
// derivative's dk and dv are reads of one state along one axis and the other. A pass over the rows
// for the other reads makes these by the way. Each row adds its columns' products: of a column
// block, then of all blocks. So one call computes all blocks of a head, and the outputs follow when
// a chunk's blocks are done.
//
// Several steps in one pass: with products D_t of the decays, which lie along the columns,
//
//   S_t x_t = S₀ (D_t ⊙ x_t) + Σ_{j≤t} v_j ((D_t / D_j ⊙ k_j) · x_t)
//
// The pass makes the first part. The dot products of the second are numbers, which the blocks
// sum, and the rows v_j come with the outputs.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace ejk;

/// f32 lanes of a 128-bit part of a register; what unpacks lanes works within one.
static constexpr unsigned kPartLanes = 4;

void CpuScanEmitter::allocateSides() {
  for (const LinearState &state : plan.linear) {
    for (ReadOp read : state.sideReads) {
      SideSums &side = sides[read];
      side.terms = plan.timeBlock > 1 ? plan.timeBlock * state.numAdds() : 0;
      side.rows = allocate(int64_t(plan.chunk) * plan.paddedRows());
      if (side.terms)
        side.dots = allocate(int64_t(plan.chunk) * side.terms);
    }
  }
}

void CpuScanEmitter::clearSides(Value count) {
  for (auto &[op, side] : sides) {
    auto clear = [&](Value buffer, int64_t perStep) {
      unsigned width = perStep % plan.rowWidth ? 1 : plan.rowWidth;
      b.loop(b.i64(0), b.mul(count, perStep), width, {}, [&](Value i, ValueRange) {
        b.storeLanes(b.number(0, width), floatAt(buffer, i));
        return SmallVector<Value>();
      });
    };
    clear(side.rows, plan.paddedRows());
    if (side.terms)
      clear(side.dots, side.terms);
  }
}

/// `vector`, but zero in lanes past the columns, which hold anything.
Value CpuScanEmitter::withinColumns(Value vector, Value mask) {
  return mask ? b.make<arith::SelectOp>(mask, vector, b.number(0, plan.width)).getResult() : vector;
}

Value CpuScanEmitter::sideVector(ReadOp read, const Channels &at, Scope &columns) {
  return withinColumns(b.splat(evaluateWide(read.getVector(), at, columns), at.width), at.mask);
}

void CpuScanEmitter::addTo(Value place, Value value) {
  b.storeLanes(b.addF(b.loadLanes(value.getType(), place), value), place);
}

/// Adds the dot products of a side read's vector with the block's columns of the terms before it.
void CpuScanEmitter::addSideDots(ReadOp read, Value vector, ValueRange terms, Value mask) {
  const SideSums &side = sides[read];
  for (auto [i, term] : llvm::enumerate(terms)) {
    Value dot = b.sumLanes(b.mulF(vector, withinColumns(term, mask)));
    addTo(floatAt(side.dots, b.add(b.mul(inChunk, side.terms), i)), dot);
  }
}

/// Rows that one iteration of a pass takes, so that their sums fill a register.
unsigned CpuScanEmitter::rowsOfSidePass(unsigned numReads) const {
  unsigned rows = plan.lanes / kPartLanes;
  bool fills = rows && plan.width % plan.lanes == 0 && numReads % kPartLanes == 0;
  return fills && steps.rows % rows == 0 ? rows : 1;
}

/// The products of a row's columns with a side read's vector, summed down to a register's lanes.
Value CpuScanEmitter::sideProducts(Value row, Value vector, Value mask) {
  row = withinColumns(row, mask);
  if (plan.width <= plan.lanes)
    return b.mulF(row, vector);
  Value sum;
  for (unsigned first = 0; first < plan.width; first += plan.lanes) {
    auto lanes = llvm::to_vector(llvm::seq<int64_t>(first, first + plan.lanes));
    Value a = b.make<vector::ShuffleOp>(row, row, lanes);
    Value c = b.make<vector::ShuffleOp>(vector, vector, lanes);
    sum = sum ? b.fma(a, c, sum) : b.mulF(a, c);
  }
  return sum;
}

/// The sum of two shuffles of `a` and `c`.
Value CpuScanEmitter::addInterleaved(Value a, Value c, ArrayRef<int64_t> low,
                                     ArrayRef<int64_t> high) {
  return b.addF(b.make<vector::ShuffleOp>(a, c, low), b.make<vector::ShuffleOp>(a, c, high));
}

/// The sums of `vectors`: of kPartLanes reads for each of as many rows as a register has parts;
/// read by read, and row by row of each.
Value CpuScanEmitter::sumSideLanes(ArrayRef<SmallVector<Value>> vectors) {
  int64_t lanes = plan.lanes, parts = lanes / kPartLanes;
  // Within each part, as unpacking instructions have it: [a b a b], then [a b c d].
  SmallVector<int64_t> lowOnes, highOnes, lowPairs, highPairs, lowParts, highParts;
  for (int64_t p = 0; p < lanes; p += kPartLanes) {
    for (int64_t i : {p, lanes + p, p + 1, lanes + p + 1}) {
      lowOnes.push_back(i);
      highOnes.push_back(i + 2);
    }
    for (int64_t i : {p, p + 1, lanes + p, lanes + p + 1}) {
      lowPairs.push_back(i);
      highPairs.push_back(i + 2);
    }
  }
  for (int64_t p = 0; p < 2 * parts; p += 2)
    for (int64_t i = 0; i < kPartLanes; ++i) {
      lowParts.push_back(p * kPartLanes + i);
      highParts.push_back((p + 1) * kPartLanes + i);
    }
  SmallVector<Value> rows;
  for (ArrayRef<Value> reads : vectors)
    rows.push_back(addInterleaved(addInterleaved(reads[0], reads[1], lowOnes, highOnes),
                                  addInterleaved(reads[2], reads[3], lowOnes, highOnes), lowPairs,
                                  highPairs));
  for (; rows.size() > 1; rows.resize(rows.size() / 2))
    for (size_t i = 0; i < rows.size() / 2; ++i)
      rows[i] = addInterleaved(rows[2 * i], rows[2 * i + 1], lowParts, highParts);
  SmallVector<int64_t> byRead;
  for (int64_t read = 0; read < kPartLanes; ++read)
    for (int64_t row = 0; row < parts; ++row)
      byRead.push_back(row * kPartLanes + read);
  return b.make<vector::ShuffleOp>(rows[0], rows[0], byRead);
}

/// Adds the products of some rows from `row` on, `products` of each row and read, to the sums.
void CpuScanEmitter::addSideRows(ArrayRef<SideRead> reads, Value row, Value inFirst,
                                 ArrayRef<SmallVector<Value>> products) {
  auto place = [&](const SideRead &read, Value at) {
    Value step = b.mul(b.add(inFirst, read.step), plan.paddedRows());
    return floatAt(sides[read.op].rows, b.add(step, at));
  };
  unsigned rows = products.size();
  if (reads.size() % kPartLanes != 0 || rows * kPartLanes != plan.lanes) {
    for (auto [read, vector] : llvm::zip(reads, products[0]))
      addTo(place(read, row), b.sumLanes(vector));
    return;
  }
  for (unsigned first = 0; first < reads.size(); first += kPartLanes) {
    SmallVector<SmallVector<Value>> group;
    for (ArrayRef<Value> ofRow : products)
      group.emplace_back(ofRow.slice(first, kPartLanes));
    Value sums = sumSideLanes(group);
    for (unsigned i = 0; i < kPartLanes; ++i) {
      auto lanes = llvm::to_vector(llvm::seq<int64_t>(i * rows, (i + 1) * rows));
      Value part = rows == 1 ? b.make<vector::ExtractOp>(sums, i).getResult()
                             : b.make<vector::ShuffleOp>(sums, sums, lanes).getResult();
      addTo(place(reads[first + i], row), part);
    }
  }
}

/// The outputs of a chunk's steps that follow from side reads, when all blocks are done.
void CpuScanEmitter::finishSides(Value firstStep, Value count) {
  b.loop(b.i64(0), count, 1, {}, [&](Value step, ValueRange) {
    auto enter = [&](Value place) {
      inChunk = place;
      currentRow = rowOfStep(b.add(firstStep, place));
    };
    enter(step);
    overRows({}, [&](const Channels &at, ValueRange) {
      Scope scope;
      for (auto &entry : sides) {
        auto read = cast<ReadOp>(entry.first);
        const SideSums &side = entry.second;
        Type type = CpuBuilder::withCount(b.getF32Type(), at.width);
        Value place = b.add(b.mul(step, plan.paddedRows()), at.position);
        Value sum = b.loadLanes(type, floatAt(side.rows, place));
        if (side.terms) {
          // Of the steps of its block so far; others' dot products are zero.
          Value first = b.mul(b.div(step, plan.timeBlock), plan.timeBlock);
          const LinearState &state = *llvm::find_if(plan.linear, [&](const LinearState &s) {
            return llvm::is_contained(s.sideReads, read);
          });
          sum = b.loop(first, b.add(step, 1), 1, sum, [&](Value term, ValueRange partial) {
            llvm::SaveAndRestore keepPlace(inChunk), keepRow(currentRow);
            enter(term);
            Value total = partial[0], number = b.mul(b.sub(term, first), state.numAdds());
            for (Operation *add : state.chain) {
              auto outer = dyn_cast<OuterAddOp>(add);
              if (!outer)
                continue;
              Scope own;
              Value row = b.splat(evaluateWide(rowVector(outer), at, own), at.width);
              Value dot = b.loadLanes(
                  b.getF32Type(),
                  floatAt(side.dots, b.add(b.mul(step, side.terms), number)));
              total = b.fma(row, b.splat(dot, at.width), total);
              number = b.add(number, 1);
            }
            return SmallVector<Value>{total};
          })[0];
        }
        scope.known[read.getResult()] = sum;
      }
      for (auto [i, value] : llvm::enumerate(scan.getYield().getOutputs()))
        if (plan.aside.contains(value))
          storeOutput(i, evaluate(value, at, scope), at, /*isLeader=*/{});
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}
