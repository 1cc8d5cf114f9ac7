//===- StepPools.cpp - states in pools ------------------------------------===//
#include "lowering/step/StepEmitter.h"

using namespace mlir;
using namespace ejk;

/// The first element, in `pool`, of this head's state in slot `slot`.
Value StepEmitter::slotOffset(Type stateType, Value pool, Value slot) {
  auto vector = dyn_cast<VectorType>(stateType);
  return pools.placeOf(b, pool, slot, b.wide(head), vector ? vector.getNumElements() : 1);
}

/// Stores a state to slot `slot` where that `exists`; null means that it does.
void StepEmitter::storeInSlot(WriteStatesOp write, Type stateType, Layout layout, Value pointer,
                              Value slot, Value exists, const Tile &tile) {
  b.onlyIf(exists, [&] {
    storeTile(stateType, layout, pointer, tensorType(write.getPool()).getElementType(),
              slotOffset(stateType, write.getPool(), slot), write.getValueMajor(), tile);
  });
}

/// Stores the states after the row at `position` to its slot.
void StepEmitter::storeSavesInSlots(Value position) {
  PoolArguments::Slot slot = pools.slotAfter(b, b.wide(position));
  for (auto [i, value] : llvm::enumerate(scan.getYield().getSaves()))
    storeInSlot(pooled.saves[i], value.getType(), Layout::row, savePointers[i], slot.number,
                slot.exists, tileOf(value, Layout::row));
}

/// Clears the rows of a sequence without slots, of this block's heads. One of the blocks that share
/// heads does.
void StepEmitter::clearOutputs() {
  Value isFirst = b.equal(blockColumn, 0);
  b.onlyIf(isFirst, [&] {
    for (auto [output, tensor, zero] : llvm::zip(outputs, scan.getOutputs(), pooled.cleared)) {
      if (!zero)
        continue;
      RankedTensorType type = tensorType(tensor);
      Value width = b.i64(type.getRank() == 4 ? type.getDimSize(3) : 1);
      // The heads of a group's queries lie side by side.
      if (group && output.heads == queryHeads)
        width = b.mul(width, b.wide(group));
      Row row = output;
      b.loop(b.wide(thread), b.mul(length, width), plan.threads(), {}, [&](Value i, ValueRange) {
        Value place = b.add(b.mul(b.div(i, width), row.stride), b.rem(i, width));
        b.store(b.zero(row.element), b.at(row.base, row.element, place));
        return SmallVector<Value>();
      });
    }
  });
}
