//===- CpuScanStates.cpp - states in memory and in tiles ------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

void CpuScanEmitter::allocateStates() {
  // A scan of rows may read saved states and have none.
  bool isTurned = llvm::is_contained(plan.savedByRow, false);
  for (Value arg : scan.getStateArgs()) {
    int64_t floats = isMatrix(arg)                  ? plan.group * steps.rows * plan.width
                     : !hasChannels(arg)            ? 1
                     : plan.late.contains(arg)      ? plan.group * plan.width
                                                    : plan.paddedRows();
    tiles.push_back(allocate(floats));
    isTurned |= isMatrix(arg) && (!plan.liesAsInMemory() || pooled.valueMajor());
  }
  if (isTurned)
    turnedTile = allocate(steps.rows * plan.width);
}

/// The address of a row of a block's tile.
Value CpuScanEmitter::tileRow(Value tile, const Block &block, Value row) {
  Value rows = b.add(b.mul(block.index, steps.rows), row);
  return floatAt(tile, b.mul(rows, plan.width));
}

void CpuScanEmitter::forEachBlock(Value firstBlock,
                                  llvm::function_ref<void(const Block &)> body) {
  b.loop(b.i64(0), numBlocks, 1, {}, [&](Value index, ValueRange) {
    Block block{index, b.mul(b.add(firstBlock, index), plan.width), {}};
    if (steps.columns % plan.width)
      block.mask = b.firstLanes(plan.width, b.sub(b.i64(steps.columns), block.position));
    body(block);
    return SmallVector<Value>();
  });
}

/// Copies a K×V matrix of `element`s in memory, where it may lie as [V,K], to or from [rows][width] of
/// f32 at `tile`.
void CpuScanEmitter::copyMatrix(Value memory, Type element, Value tile, const Block &block,
                                bool toMemory, bool valueMajor) {
  auto copy = [&](Value place, Value there, unsigned width) {
    Type type = CpuBuilder::withCount(element, width);
    Type wide = CpuBuilder::withCount(b.getF32Type(), width);
    Value mask = width > 1 ? block.mask : Value();
    if (toMemory)
      b.storeLanes(b.roundTo(element, b.loadLanes(wide, there)), place, mask);
    else
      b.storeLanes(b.widen(b.loadLanes(type, place, mask)), there);
  };
  if (plan.liesAsInMemory() != valueMajor) {
    b.loop(b.i64(0), b.i64(steps.rows), 1, {}, [&](Value row, ValueRange) {
      copy(b.at(memory, element, b.add(b.mul(row, steps.columns), block.position)),
           floatAt(tile, b.mul(row, plan.width)), plan.width);
      return SmallVector<Value>();
    });
    return;
  }
  Value count = b.min(b.sub(b.i64(steps.columns), block.position), b.i64(plan.width));
  // Squares of a register's lanes are turned in registers.
  unsigned side = plan.squareSide;
  if (side > 1) {
    b.loop(b.i64(0), count, side, {}, [&](Value column, ValueRange) {
      Value start = b.mul(b.add(block.position, column), steps.rows);
      b.loop(b.i64(0), b.i64(steps.rows), side, {}, [&](Value row, ValueRange) {
        auto there = [&](unsigned i) { // row i of the square in memory
          return b.at(memory, element, b.add(b.add(start, row), i * steps.rows));
        };
        auto here = [&](unsigned i) { // and in the tile
          return floatAt(tile, b.add(b.mul(b.add(row, i), plan.width), column));
        };
        SmallVector<Value> square;
        for (unsigned i = 0; i < side; ++i)
          square.push_back(
              toMemory ? b.loadLanes(CpuBuilder::withCount(b.getF32Type(), side), here(i))
                       : b.widen(b.loadLanes(CpuBuilder::withCount(element, side), there(i))));
        b.transpose(square);
        for (unsigned i = 0; i < side; ++i)
          if (toMemory)
            b.storeLanes(b.roundTo(element, square[i]), there(i));
          else
            b.storeLanes(square[i], here(i));
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
    return;
  }
  b.loop(b.i64(0), count, 1, {}, [&](Value column, ValueRange) {
    Value start = b.mul(b.add(block.position, column), steps.rows);
    b.loop(b.i64(0), b.i64(steps.rows), 1, {}, [&](Value row, ValueRange) {
      copy(b.at(memory, element, b.add(start, row)),
           floatAt(tile, b.add(b.mul(row, plan.width), column)), 1);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}

void CpuScanEmitter::loadStates(Value firstBlock) {
  Type f32 = b.getF32Type();
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    Value memory = initialPointers[i], tile = tiles[i];
    ReadStatesOp read = pooled ? pooled.starts[i] : ReadStatesOp();
    if (!hasChannels(arg) && !isMatrix(arg)) {
      b.storeLanes(memory ? b.loadLanes(f32, b.at(memory, f32, stateIndex)) : b.f32(0), tile);
      continue;
    }
    if (isMatrix(arg)) {
      forEachBlock(firstBlock, [&](const Block &block) {
        Value start = tileRow(tile, block, b.i64(0));
        // Lanes past the columns, too.
        auto clear = [&] {
          b.loop(b.i64(0), b.i64(steps.rows), 1, {}, [&](Value row, ValueRange) {
            b.storeLanes(b.number(0, plan.width), floatAt(start, b.mul(row, plan.width)));
            return SmallVector<Value>();
          });
        };
        if (!memory)
          return clear();
        if (!read)
          return copyMatrix(b.at(memory, f32, b.mul(stateIndex, matrixElements())), f32, start,
                            block, /*toMemory=*/false);
        auto copy = [&] {
          copyMatrix(slotOf(memory, read.getPool(), pools.start),
                     getElementTypeOrSelf(read.getPool().getType()), start, block,
                     /*toMemory=*/false, read.getValueMajor());
        };
        if (!pools.hasStart)
          return copy();
        auto branch = b.make<scf::IfOp>(TypeRange(), pools.hasStart, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(branch.thenBlock());
        copy();
        b.setInsertionPointToStart(branch.elseBlock());
        clear();
      });
      continue;
    }
    int64_t channels = cast<VectorType>(arg.getType()).getNumElements();
    Value start = memory ? b.at(memory, f32, b.mul(stateIndex, channels)) : Value();
    auto load = [&](Value position, unsigned width, Value mask, Value place) {
      Type type = CpuBuilder::withCount(f32, width);
      b.storeLanes(start ? b.loadLanes(type, floatAt(start, position), mask) : b.number(0, width),
                   place);
    };
    if (plan.late.contains(arg))
      forEachBlock(firstBlock, [&](const Block &block) {
        load(block.position, plan.width, block.mask,
             floatAt(tile, b.mul(block.index, plan.width)));
      });
    else
      b.loop(b.i64(0), b.i64(channels), 1, {}, [&](Value position, ValueRange) {
        load(position, 1, {}, floatAt(tile, position));
        return SmallVector<Value>();
      });
  }
}

void CpuScanEmitter::storeStates(Value firstBlock, Value isLeader) {
  Type f32 = b.getF32Type();
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    Value memory = finalPointers[i], tile = tiles[i];
    WriteStatesOp write = pooled ? pooled.ends[i] : WriteStatesOp();
    if (!memory)
      continue;
    if (isMatrix(arg)) {
      b.onlyIf(write ? pools.hasEnd : Value(), [&] {
        forEachBlock(firstBlock, [&](const Block &block) {
          Value start = tileRow(tile, block, b.i64(0));
          if (write)
            copyMatrix(slotOf(memory, write.getPool(), pools.end),
                       getElementTypeOrSelf(write.getPool().getType()), start, block,
                       /*toMemory=*/true, write.getValueMajor());
          else
            copyMatrix(b.at(memory, f32, b.mul(stateIndex, matrixElements())), f32, start, block,
                       /*toMemory=*/true);
        });
      });
      continue;
    }
    auto vector = dyn_cast<VectorType>(arg.getType());
    int64_t channels = vector ? vector.getNumElements() : 1;
    Value start = b.at(memory, f32, b.mul(stateIndex, channels));
    if (hasChannels(arg) && plan.late.contains(arg))
      forEachBlock(firstBlock, [&](const Block &block) {
        Value value = b.loadLanes(CpuBuilder::withCount(f32, plan.width),
                                  floatAt(tile, b.mul(block.index, plan.width)));
        b.storeLanes(value, floatAt(start, block.position), block.mask);
      });
    else
      b.onlyIf(isLeader, [&] {
        b.loop(b.i64(0), b.i64(channels), 1, {}, [&](Value position, ValueRange) {
          b.storeLanes(b.loadLanes(f32, floatAt(tile, position)), floatAt(start, position));
          return SmallVector<Value>();
        });
      });
  }
}

//===----------------------------------------------------------------------===//
// Saved states
//===----------------------------------------------------------------------===//

Value CpuScanEmitter::isFirstRow(Value row) { return b.equal(row, 0); }
Value CpuScanEmitter::isLastRow(Value row) {
  return b.equal(b.sub(b.sub(length, 1), row), 0);
}

/// Whether the step of `row` is the first, or the last, that the walk takes of a chunk of
/// saved states.
Value CpuScanEmitter::entersChunk(Value row) {
  int64_t every = *scan.getSaveEvery();
  if (!scan.getReverse())
    return b.equal(b.rem(row, every), 0);
  return b.make<arith::OrIOp>(b.equal(b.rem(b.add(row, 1), every), 0), isLastRow(row));
}

Value CpuScanEmitter::leavesChunk(Value row) {
  int64_t every = *scan.getSaveEvery();
  if (scan.getReverse())
    return b.equal(b.rem(row, every), 0);
  return b.make<arith::OrIOp>(b.equal(b.rem(b.add(row, 1), every), 0), isLastRow(row));
}

/// Which of all saved states is that of the row's chunk.
Value CpuScanEmitter::savedIndex(Value row) {
  int64_t every = *scan.getSaveEvery();
  Value slot = b.add(b.add(b.div(firstRow, every), sequence), b.div(row, every));
  return b.add(b.mul(slot, heads), head);
}
