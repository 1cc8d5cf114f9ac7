//===- StoreOperandsEarly.cpp - matmul operands in shared memory -----------===//
//
// Products of rows, as q kᵀ, are a matmul's result in registers, become an operand, and lie in
// shared memory until the matmul that takes them. With a matmul of theirs issued one iteration
// early (PipelineMatmuls.cpp) they are in registers from the loop's start on. This pass moves their
// store, and the ops that compute its operand, up: shared memory holds them while other matmuls run.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/StoreOperandsEarly.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/LiveRanges.h"
#include "passes/program/RegisterPressure.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `op` stores a tile in registers to shared memory as a matmul operand.
static bool storesOperand(Operation *op) {
  auto store = dyn_cast<ConvertOp>(op);
  return store && isSwizzled(store.getLayout()) && isFragments(layoutOf(store.getTile())) &&
         llvm::all_of(store->getUsers(), llvm::IsaPred<DotOp>);
}

/// The ops that compute from `tile`, in order, if they only make matmul operands in shared memory;
/// otherwise none.
static SmallVector<Operation *> opsThatOnlyStore(Value tile, Block &block) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> left = {tile};
  while (!left.empty())
    for (Operation *user : left.pop_back_val().getUsers()) {
      if (user->getBlock() != &block || !isPure(user) || user->getNumRegions() ||
          user->getNumResults() != 1 || isa<DotOp>(user))
        return {};
      if (!ops.insert(user) || storesOperand(user))
        continue;
      left.push_back(user->getResult(0));
    }
  // Loads and broadcasts that only these use stand before them, and move along.
  for (unsigned i = 0; i < ops.size(); ++i)
    for (Value operand : ops[i]->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && maker->getBlock() == &block && canWait(maker) &&
          llvm::all_of(maker->getUsers(), [&](Operation *user) { return ops.contains(user); }))
        ops.insert(maker);
  SmallVector<Operation *> inOrder = ops.takeVector();
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return inOrder;
}

/// Moves what only stores operands made of `tile` up past matmuls: to where all of it can be computed,
/// or with `late` to the first matmul after that. Returns whether it moved.
static bool storeEarly(Value tile, Block &block, bool late) {
  SmallVector<Operation *> ops = opsThatOnlyStore(tile, block);
  if (ops.empty())
    return false;
  Operation *place = nullptr; // which they must follow
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (maker && maker->getBlock() == &block && !llvm::is_contained(ops, maker) &&
          (!place || place->isBeforeInBlock(maker)))
        place = maker;
    }
  Operation *next = place ? place->getNextNode() : &block.front(), *passed = next;
  while (!isa<DotOp>(passed) && passed != ops.front() && passed->getNextNode())
    passed = passed->getNextNode();
  if (!isa<DotOp>(passed) || !passed->isBeforeInBlock(ops.front()))
    return false;
  for (Operation *op = next; op != ops.front(); op = op->getNextNode())
    if (op->getNumRegions())
      return false;
  for (Operation *op : ops)
    op->moveBefore(late ? passed : next);
  return true;
}

unsigned ejk::storeOperandsEarly(ProgramOp program, StoreOperands when) {
  if (when == StoreOperands::atUse || !program->hasAttr(kWarpgroupsAttr))
    return 0;
  llvm::SetVector<Block *> blocks;
  program.walk([&](DotOp dot) {
    if (!isOnExactPath(dot) && hasManyMatmuls(*dot->getBlock()))
      blocks.insert(dot->getBlock());
  });
  unsigned count = 0;
  for (Block *block : blocks) {
    SmallVector<Value> tiles(block->getArguments());
    for (DotOp dot : block->getOps<DotOp>())
      tiles.push_back(dot.getResult());
    for (Value tile : tiles)
      count += registersOf(tile) > 0 && storeEarly(tile, *block, when == StoreOperands::late);
  }
  return count;
}
