//===- CpuScanPools.cpp - states in pools ---------------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"

using namespace mlir;
using namespace ejk;

/// The address, in the pool at `pointer`, of this head's matrix in slot `slot`.
Value CpuScanEmitter::slotOf(Value pointer, Value pool, Value slot) {
  return b.at(pointer, getElementTypeOrSelf(pool.getType()),
              pools.placeOf(b, pool, slot, head, matrixElements()));
}

/// Where the `i`-th save of row `row` goes: among saved states, or to a slot of a pool.
CpuScanEmitter::SavePlace CpuScanEmitter::placeOfSave(unsigned i, Value row) {
  Type element = getElementTypeOrSelf(scan.getSaves()[i].getType());
  if (!pooled.use.writesPerRow()) {
    Value start = b.mul(savedIndex(row), matrixElements());
    return {b.at(savePointers[i], element, start), {}, element, plan.savesByRow[i]};
  }
  WriteStatesOp write = pooled.saves[i];
  PoolArguments::Slot slot = pools.slotAfter(b, row);
  Value pool = write.getPool();
  return {slotOf(savePointers[i], pool, slot.number), slot.exists,
          getElementTypeOrSelf(pool.getType()), plan.liesAsInMemory() != write.getValueMajor(),
          write.getValueMajor()};
}

/// Clears the rows of a sequence without slots, of this head.
void CpuScanEmitter::clearOutputs(Value isLeader) {
  b.onlyIf(isLeader, [&] {
    for (auto [output, tensor, zero] : llvm::zip(outputs, scan.getOutputs(), pooled.cleared)) {
      if (!zero)
        continue;
      auto type = cast<RankedTensorType>(tensor.getType());
      int64_t channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
      const Row &row = output;
      b.loop(b.i64(0), length, 1, {}, [&](Value step, ValueRange) {
        Value first = b.mul(step, row.stride);
        b.loop(b.i64(0), b.i64(channels), 1, {}, [&](Value channel, ValueRange) {
          b.storeLanes(b.zero(row.element), b.at(row.base, row.element, b.add(first, channel)));
          return SmallVector<Value>();
        });
        return SmallVector<Value>();
      });
    }
  });
}
