//===- RowBytes.cpp - bytes that a program moves for a row ------------------===//
#include "lowering/select/RowBytes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

RowBytes ejk::bytesOfLoadedRows(ProgramOp program) {
  llvm::DenseMap<Value, Value> tensors;
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    tensors[arg] = tensor;
  // By tensor and whether the columns are the slice's own.
  llvm::MapVector<std::pair<Value, unsigned>, int64_t> loaded;
  llvm::MapVector<Value, int64_t> whole;
  auto note = [&](Value rows, Value channel, Type tile) {
    Value tensor = tensors.lookup(rows);
    if (!tensor) // of a state slot
      return;
    Type row = cast<RowsType>(rows.getType()).getRow();
    int64_t bytes = getElementTypeOrSelf(row).getIntOrFloatBitWidth() / 8, all = bytes;
    if (auto vector = dyn_cast<VectorType>(row)) {
      all *= vector.getDimSize(0);
      bytes = std::min(all, bytes * cast<VectorType>(tile).getShape().back());
    }
    whole[tensor] = all;
    unsigned isOwn = !getConstantIntValue(channel);
    int64_t perSlice = isOwn ? llvm::divideCeil(all, program.getSlices()) : bytes;
    int64_t &most = loaded[{tensor, isOwn}];
    most = std::max(most, perSlice * int64_t(program.getSlices()));
  };
  program.walk([&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op))
      note(load.getRows(), load.getChannel(), load.getResult().getType());
    if (auto fill = dyn_cast<FillOp>(op))
      for (auto [rows, channel, tile] :
           llvm::zip_equal(fill.getRows(), fill.getChannels(), fill.getRing().getType().getTiles()))
        note(rows, channel, tile);
  });
  RowBytes bytes;
  for (auto [tensor, all] : whole)
    bytes.once += all;
  for (auto [place, all] : loaded)
    bytes.bySlices += all;
  return bytes;
}

int64_t ejk::bytesMovedForRow(ProgramOp program) {
  int64_t bytes = bytesOfLoadedRows(program).bySlices, ofStates = 0;
  program.walk([&](Operation *op) {
    Type slot = isa<LoadSlotOp>(op)    ? op->getResult(0).getType()
                : isa<StoreSlotOp>(op) ? op->getOperand(0).getType()
                                       : Type();
    auto matrix = dyn_cast_or_null<VectorType>(slot);
    if (matrix && matrix.getRank() == 2 && op->getParentOfType<scf::ForOp>())
      ofStates += matrix.getNumElements() * matrix.getElementTypeBitWidth() / 8;
  });
  return bytes + ofStates * int64_t(program.getSlices()) / int64_t(program.getChunk());
}

int64_t ejk::bytesMovedForRow(ArrayRef<ProgramOp> programs) {
  int64_t bytes = 0;
  for (ProgramOp program : programs)
    bytes += bytesMovedForRow(program);
  return bytes;
}
