//===- StepStates.cpp - states in, out and saved, step by step ------------===//
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/step/StepEmitter.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// States in and out
//===----------------------------------------------------------------------===//

/// The row of the state of this thread's `i`-th row.
Value StepEmitter::rowOf(unsigned i) {
  unsigned group = plan.rowGroup;
  return b.add(b.mul(rowSlot, group), (i / group) * group * plan.rowSlots() + i % group);
}

Value StepEmitter::stateOffset(Type stateType, Value index) {
  auto vector = dyn_cast<VectorType>(stateType);
  return b.mul(index, vector ? vector.getNumElements() : 1);
}

void StepEmitter::forEachPart(Type stateType, Layout layout, Value start, bool valueMajor,
                              llvm::function_ref<void(const StatePart &)> visit) {
  auto vector = dyn_cast<VectorType>(stateType);
  unsigned rank = vector ? vector.getRank() : 0;
  if (rank == 0)
    return visit({start, Value(), b.both(leadsColumns, leadsRows), {0}});

  auto rowValid = [&](Value row, unsigned count) {
    return plan.paddedRows() != plan.rows ? b.less(row, plan.rows - (count - 1)) : Value();
  };
  auto columnValid = [&](Value col) { return columnsPadded ? b.less(col, plan.columns) : Value(); };
  unsigned cols = plan.colsPerThread;
  bool wholeCols = plan.columns % cols == 0, wholeRows = plan.rows % plan.rowGroup == 0;
  if (rank == 1 && layout == Layout::column) {
    unsigned count = wholeCols ? cols : 1;
    for (unsigned j = 0; j < cols; j += count) {
      Value col = b.add(column, j);
      auto slots = llvm::to_vector(llvm::seq<unsigned>(j, j + count));
      visit({b.add(start, b.wide(col)), columnValid(col), leadsRows, slots});
    }
    return;
  }
  if (rank == 1) {
    unsigned count = wholeRows ? plan.rowGroup : 1;
    for (unsigned i = 0; i < plan.rowsPerThread; i += count) {
      Value row = rowOf(i);
      auto slots = llvm::to_vector(llvm::seq<unsigned>(i, i + count));
      visit({b.add(start, b.wide(row)), rowValid(row, count), leadsColumns, slots});
    }
    return;
  }
  // A matrix: the innermost axis is contiguous, whether rows or columns.
  bool alongColumns = (plan.rowAxis == Axis::key) != valueMajor;
  unsigned rowStep = !alongColumns && wholeRows ? plan.rowGroup : 1;
  unsigned colStep = alongColumns && wholeCols ? cols : 1;
  int64_t pitch = alongColumns ? plan.columns : plan.rows;
  for (unsigned i = 0; i < plan.rowsPerThread; i += rowStep)
    for (unsigned j = 0; j < cols; j += colStep) {
      Value row = rowOf(i), col = b.add(column, j);
      Value offset = alongColumns ? b.add(b.mul(row, pitch), col) : b.add(b.mul(col, pitch), row);
      SmallVector<unsigned> slots;
      for (unsigned r = 0; r < rowStep; ++r)
        for (unsigned c = 0; c < colStep; ++c)
          slots.push_back((i + r) * cols + j + c);
      visit({b.add(start, b.wide(offset)), b.both(rowValid(row, rowStep), columnValid(col)),
             Value(), slots});
    }
}

Tile StepEmitter::loadState(unsigned i) {
  Type type = scan.getStateArgs()[i].getType();
  Layout layout = plan.layouts.lookup_or(scan.getStateArgs()[i], Layout::scalar);
  Tile tile(tileSize(type, layout), Value());
  if (!initialPointers[i]) {
    std::fill(tile.begin(), tile.end(), b.f32(0.0));
    return tile;
  }
  ReadStatesOp read = pooled ? pooled.starts[i] : ReadStatesOp();
  Type stored = read ? tensorType(read.getPool()).getElementType() : b.getF32Type();
  // Zeros that no memory holds are for segments.
  Value areGiven = read                 ? pools.hasStart
                   : scan.getSegments() ? b.isNotNull(initialPointers[i])
                                        : Value();
  Value start = read ? slotOffset(type, read.getPool(), pools.start) : stateOffset(type, stateIndex);
  forEachPart(type, layout, start, read && read.getValueMajor(), [&](const StatePart &part) {
    Type partType = KernelBuilder::withCount(stored, part.slots.size());
    Value loaded = b.loadIf(b.both(areGiven, part.valid), partType,
                            [&] { return b.at(initialPointers[i], stored, part.offset); });
    for (auto [slot, element] : llvm::zip(part.slots, b.unpack(loaded)))
      tile[slot] = stored.isF32() ? element
                                  : b.make<arith::ExtFOp>(b.getF32Type(), element).getResult();
  });
  return tile;
}

/// Stores the thread's part of a state, rounded to `stored`.
void StepEmitter::storeTile(Type stateType, Layout layout, Value pointer, Type stored, Value start,
                            bool valueMajor, const Tile &tile) {
  forEachPart(stateType, layout, start, valueMajor, [&](const StatePart &part) {
    b.onlyIf(b.both(part.valid, part.leader), [&] {
      SmallVector<Value> elements;
      for (unsigned slot : part.slots)
        elements.push_back(stored.isF32()
                               ? tile[slot]
                               : b.make<arith::TruncFOp>(stored, tile[slot]).getResult());
      b.store(b.pack(elements), b.at(pointer, stored, part.offset));
    });
  });
}

void StepEmitter::storeState(unsigned i, const Tile &tile) {
  if (!finalPointers[i])
    return;
  Type type = scan.getStateArgs()[i].getType();
  Layout layout = plan.layouts.lookup_or(scan.getStateArgs()[i], Layout::scalar);
  if (WriteStatesOp write = pooled ? pooled.ends[i] : WriteStatesOp())
    return storeInSlot(write, type, layout, finalPointers[i], pools.end, pools.hasEnd, tile);
  storeTile(type, layout, finalPointers[i], b.getF32Type(), stateOffset(type, stateIndex),
            /*valueMajor=*/false, tile);
}

//===----------------------------------------------------------------------===//
// Saved states
//===----------------------------------------------------------------------===//

Value StepEmitter::entersChunk(Value position) {
  int64_t every = *scan.getSaveEvery();
  if (!scan.getReverse())
    return b.equal(b.rem(position, every), 0);
  return b.make<arith::OrIOp>(b.equal(b.rem(b.add(position, 1), every), 0),
                              b.equal(b.sub(b.sub(sequenceLength, 1), position), 0));
}

Value StepEmitter::leavesChunk(Value position) {
  int64_t every = *scan.getSaveEvery();
  if (scan.getReverse())
    return b.equal(b.rem(position, every), 0);
  return b.make<arith::OrIOp>(b.equal(b.rem(b.add(position, 1), every), 0),
                              b.equal(b.sub(b.sub(sequenceLength, 1), position), 0));
}

Value StepEmitter::savedIndex(Value position) {
  int64_t every = *scan.getSaveEvery();
  Value slot = b.add(b.add(b.div(sequenceFirst, every), b.wide(sequence)), b.div(position, every));
  return b.add(b.mul(slot, heads), b.wide(head));
}

/// Calls `visit` with each element of the thread's part of saved state `i`, as f32, part by part,
/// so that few are live at once.
void StepEmitter::forEachSaved(unsigned i, Value position,
                               llvm::function_ref<void(unsigned, Value)> visit) {
  auto type = cast<VectorType>(scan.getSavedArgs()[i].getType());
  Value start = stateOffset(type, savedIndex(position));
  forEachPart(type, Layout::row, start, /*valueMajor=*/false, [&](const StatePart &part) {
    Type partType = KernelBuilder::withCount(type.getElementType(), part.slots.size());
    Value loaded = b.loadIf(part.valid, partType, [&] {
      return b.at(savedPointers[i], type.getElementType(), part.offset);
    });
    for (auto [slot, element] : llvm::zip(part.slots, b.unpack(loaded)))
      visit(slot, type.getElementType().isF32()
                      ? element
                      : b.make<arith::ExtFOp>(b.getF32Type(), element).getResult());
  });
}

void StepEmitter::storeSaves(Value position) {
  if (savePointers.empty())
    return;
  if (pooled.use.writesPerRow())
    return storeSavesInSlots(position);
  b.onlyIf(leavesChunk(position), [&] {
    Value index = savedIndex(position);
    for (auto [pointer, tensor, value] :
         llvm::zip(savePointers, scan.getSaves(), scan.getYield().getSaves()))
      storeTile(value.getType(), Layout::row, pointer, tensorType(tensor).getElementType(),
                stateOffset(value.getType(), index), /*valueMajor=*/false,
                tileOf(value, Layout::row));
  });
}

/// Stores what a later call needs of the step's rows and of those before it. A head that several
/// share is the first one's to store.
void StepEmitter::storeLastRows() {
  for (LastRows &last : lastRows) {
    RankedTensorType type = tensorType(last.op.getResult());
    Type element = type.getElementType();
    int64_t channels = type.getRank() == 4 ? type.getDimSize(3) : 1, rows = type.getDimSize(1);
    Value group = b.div(b.narrow(heads), b.narrow(last.heads));
    Value isFirst = b.both(b.equal(b.rem(head, group), 0), b.equal(blockColumn, 0));
    Value stride = b.mul(last.heads, channels), column = b.mul(ownHead(last.heads), channels);
    Value first = b.mul(b.wide(sequence), rows);
    b.onlyIf(isFirst, [&] {
      b.loop(thread, b.i32(rows * channels), plan.threads(), {}, [&](Value i, ValueRange) {
        Value number = b.wide(b.div(i, channels)), channel = b.add(column, b.wide(b.rem(i, channels)));
        auto at = [&](Value base, Value row, Value stride) {
          return b.at(base, element, b.add(b.mul(row, stride), channel));
        };
        Value isStep = b.equal(number, last.op.getReverse() ? 0 : rows - 1);
        Value from = at(last.rows, b.wide(sequence), last.stride ? last.stride : stride);
        Value exists = isStep;
        if (last.halo) {
          Value inHalo = b.add(number, last.op.getReverse() ? -1 : 1);
          from = b.make<arith::SelectOp>(isStep, from, at(last.halo, b.add(first, inHalo), stride));
          exists = Value();
        }
        b.store(b.loadIf(exists, element, [&] { return from; }),
                at(last.result, b.add(first, number), stride));
        return SmallVector<Value>();
      });
    });
  }
}
