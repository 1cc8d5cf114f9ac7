//===- MergeChoices.cpp - one branch for what is decided once --------------===//
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Passes.h"
#include "passes/SimplifyProgram.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_MERGECHOICES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `op` may go in front of ops that store nothing that it reads.
static bool isMovable(Operation *op) {
  return op->getNumRegions() == 0 && (isMemoryEffectFree(op) || isa<LoadOp, LoadCellOp>(op));
}

static bool stores(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool is = isa<StoreOp, StoreCellOp>(inner);
        return is ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Puts `second` right behind `first`, and what it needs in front of that; false where it
/// needs what `first` gives, or what cannot move.
static bool bringTogether(scf::IfOp first, scf::IfOp second) {
  Block *block = first->getBlock();
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
  need(second);
  for (unsigned i = 0; i < needed.size(); ++i) {
    if (needed[i] == first || !isMovable(needed[i]))
      return false;
    need(needed[i]);
  }
  for (Operation *op = first; op != second; op = op->getNextNode())
    if (op != first && op->getNumRegions())
      return false;
  // What is stored meanwhile is stored behind both; the second's loads, in front of it.
  if (stores(first) || stores(second))
    return false;
  SmallVector<Operation *> inOrder = needed.takeVector();
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : inOrder)
    op->moveBefore(first);
  second->moveAfter(first);
  return true;
}

unsigned ejk::mergeChoices(ProgramOp program) {
  unsigned merged = 0;
  program.walk([&](Block *block) {
    scf::IfOp last;
    for (scf::IfOp choice : llvm::to_vector(block->getOps<scf::IfOp>())) {
      if (last && last.getCondition() == choice.getCondition() && bringTogether(last, choice))
        ++merged;
      else
        last = choice;
    }
  });
  if (merged)
    simplifyProgram(program);
  return merged;
}

namespace {
struct MergeChoicesPass : ejk::impl::MergeChoicesBase<MergeChoicesPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) { numMerged += mergeChoices(program); });
  }
};
} // namespace
