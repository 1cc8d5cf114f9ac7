//===- RowPlacement.cpp - rows from and to memory --------------------------===//
#include "lowering/layout/RowPlacement.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

bool ejk::loadsToRegisters(LoadOp load) {
  auto type = cast<VectorType>(load.getType());
  if (type.getRank() != 2 || !type.getElementType().isF32() || isTf32Operand(load))
    return false;
  if (load->hasOneUse())
    return !isa<vector::ExtractOp>(*load->user_begin()) && !isOfGates(load);
  auto program = load->getParentOfType<ProgramOp>();
  size_t place = llvm::find(program.getSequenceArgs(), load.getRows()).getIndex();
  return place < program.getSequences().size() && isSavedRead(program.getSequences()[place]) &&
         llvm::all_of(load->getUsers(),
                      [&](Operation *user) { return user->getBlock() == load->getBlock(); });
}

bool ejk::storesFromSwizzled(StoreOp store) {
  auto row = dyn_cast<VectorType>(store.getRows().getType().getRow());
  return row && row.getDimSize(0) % 8 == 0 && isMultipleOf(store.getChannel(), 8) &&
         fitsSwizzled(store.getTile().getType());
}
