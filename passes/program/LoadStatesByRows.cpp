//===- LoadStatesByRows.cpp - load and store state slots by rows -----------===//
//
// Replaces loads and stores of 16-bit matrices in state slots by loads and stores of
// their rows, so that they can use asynchronous copies, rings and TMA as sequences do.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"

namespace ejk {
#define GEN_PASS_DEF_LOADSTATESBYROWS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether a part of a slot can go through shared memory like rows.
static bool canMoveByRows(Type part) {
  auto matrix = dyn_cast<VectorType>(part);
  return matrix && matrix.getRank() == 2 && matrix.getElementType().getIntOrFloatBitWidth() == 16;
}

static Value rowsOf(OpBuilder &b, Operation *op, TypedValue<SlotsType> slots, Value index) {
  auto slot = cast<VectorType>(slots.getType().getSlot());
  Type row = VectorType::get(slot.getShape().drop_front(), slot.getElementType());
  return SlotRowsOp::create(b, op->getLoc(), RowsType::get(op->getContext(), row), slots, index);
}

namespace {
struct LoadStatesByRowsPass : ejk::impl::LoadStatesByRowsBase<LoadStatesByRowsPass> {
  void runOnOperation() override {
    SmallVector<Operation *> moves;
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return; // laid out already
      program.walk([&](Operation *op) {
        if (auto load = dyn_cast<LoadSlotOp>(op); load && canMoveByRows(load.getResult().getType()))
          moves.push_back(op);
        if (auto store = dyn_cast<StoreSlotOp>(op);
            store && canMoveByRows(store.getTile().getType()))
          moves.push_back(op);
      });
    });
    for (Operation *op : moves) {
      OpBuilder b(op);
      if (auto load = dyn_cast<LoadSlotOp>(op)) {
        Value rows = rowsOf(b, op, load.getSlots(), load.getIndex());
        auto made = LoadOp::create(b, op->getLoc(), load.getResult().getType(), rows,
                                   load.getOffsets()[0], load.getOffsets()[1]);
        load.getResult().replaceAllUsesWith(made);
        ++numLoads;
      } else {
        auto store = cast<StoreSlotOp>(op);
        Value rows = rowsOf(b, op, store.getSlots(), store.getIndex());
        StoreOp::create(b, op->getLoc(), store.getTile(), rows, store.getOffsets()[0],
                        store.getOffsets()[1]);
        ++numStores;
      }
      op->erase();
    }
  }
};
} // namespace
