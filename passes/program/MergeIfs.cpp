//===- MergeIfs.cpp - merge branches with the same condition ---------------===//
//
// Merges branches with the same condition, so that a chunk has one `tile.guarded`, whose two paths
// can each be scheduled as a whole.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Passes.h"
#include "passes/program/SimplifyProgram.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_MERGEIFS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The rows and state slots that ops under `op` store to, or load from.
template <typename... Accesses> static llvm::SetVector<Value> placesOf(Operation *op) {
  llvm::SetVector<Value> places;
  op->walk([&](Operation *inner) {
    if (isa<Accesses...>(inner))
      for (Value operand : inner->getOperands())
        if (isa<RowsType, SlotsType>(operand.getType()))
          places.insert(operand);
  });
  return places;
}

/// Whether `op` may move before ops that store to `stored`.
static bool isMovable(Operation *op, const llvm::SetVector<Value> &stored) {
  return op->getNumRegions() == 0 && (isMemoryEffectFree(op) || isa<LoadOp, LoadSlotOp>(op)) &&
         llvm::none_of(op->getOperands(), [&](Value v) { return stored.contains(v); });
}

/// Moves `next` directly after the last of `ifs`, which are adjacent, and the ops that it
/// depends on before them. False if it depends on them or on an op that cannot move.
static bool makeAdjacent(ArrayRef<Branch> ifs, Branch next) {
  Operation *first = ifs.front().getOperation(), *last = ifs.back().getOperation();
  Block *block = first->getBlock();
  if (!placesOf<StoreOp, StoreSlotOp>(next.getOperation()).empty())
    return false;
  llvm::SetVector<Value> stored;
  for (Operation *op = first; op != next.getOperation(); op = op->getNextNode()) {
    bool isIf = llvm::is_contained(ifs, Branch::of(op));
    llvm::SetVector<Value> here = placesOf<StoreOp, StoreSlotOp>(op);
    if (isIf ? !here.empty() : op->getNumRegions() != 0)
      return false;
    stored.insert_range(here);
  }
  if (llvm::any_of(placesOf<LoadOp, LoadSlotOp>(next.getOperation()),
                   [&](Value place) { return stored.contains(place); }))
    return false;
  llvm::SetVector<Operation *> needed;
  auto need = [&](Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          if (Operation *here = block->findAncestorOpInBlock(*maker);
              here && here != op && !here->isBeforeInBlock(first))
            needed.insert(here);
    });
  };
  need(next.getOperation());
  for (unsigned i = 0; i < needed.size(); ++i) {
    if (!isMovable(needed[i], stored))
      return false;
    need(needed[i]);
  }
  SmallVector<Operation *> inOrder = needed.takeVector();
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : inOrder)
    op->moveBefore(first);
  next->moveAfter(last);
  return true;
}

unsigned ejk::mergeIfs(ProgramOp program) {
  unsigned merged = 0;
  program.walk([&](Block *block) {
    SmallVector<Branch> together, all;
    for (Operation &op : *block)
      if (Branch branch = Branch::of(&op))
        all.push_back(branch);
    for (Branch next : all) {
      if (!together.empty() && together.front()->getName() == next->getName() &&
          together.front().getCondition() == next.getCondition() && makeAdjacent(together, next))
        ++merged;
      else
        together.clear();
      together.push_back(next);
    }
  });
  if (merged)
    simplifyProgram(program);
  return merged;
}

namespace {
struct MergeIfsPass : ejk::impl::MergeIfsBase<MergeIfsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) { numMerged += mergeIfs(program); });
  }
};
} // namespace
