//===- BranchMatmuls.cpp - the order of a branch's matmuls ----------------===//
#include "lowering/pipeline/BranchMatmuls.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

void ejk::collectMakers(scf::ForOp loop, Operation *op, SetVector<Operation *> &makers) {
  if (!op || op->getBlock() != loop.getBody() || !makers.insert(op))
    return;
  for (Value operand : op->getOperands())
    collectMakers(loop, operand.getDefiningOp(), makers);
}

/// Moves stores before the branch into both branches, where they need no barrier of their own. On
/// the fast path the operands are computed before `next`, a matmul, and stored before `last`.
static void storeInBranch(scf::ForOp loop, GuardedOp branch, Operation *next, Operation *last) {
  OpBuilder b(loop);
  SmallVector<StoreOp> stores;
  for (auto store : loop.getBody()->getOps<StoreOp>())
    if (store->isBeforeInBlock(branch))
      stores.push_back(store);
  for (StoreOp store : stores) {
    SetVector<Operation *> makers;
    collectMakers(loop, store, makers);
    if (llvm::any_of(makers, [&](Operation *op) {
          return op != store && (!isPure(op) || op->getNumRegions());
        }))
      continue;
    // In program order, so that operands come first.
    SmallVector<Operation *> ops;
    for (Operation &op : *loop.getBody())
      if (makers.contains(&op))
        ops.push_back(&op);
    Operation *start = &branch.getExactBlock()->front();
    for (bool isFastPath : {true, false}) {
      IRMapping known;
      for (Operation *op : ops) {
        b.setInsertionPoint(!isFastPath ? start : op == store ? last : next);
        b.clone(*op, known);
      }
    }
    for (Operation *op : llvm::reverse(ops))
      if (op == store || isOpTriviallyDead(op))
        op->erase();
  }
}

void ejk::orderMatmuls(scf::ForOp loop, GuardedOp branch, const BranchMatmuls &matmuls) {
  Block &block = *branch.getFastBlock();
  for (Operation *dot : llvm::reverse(matmuls.ready))
    dot->moveBefore(&block.front());
  for (Operation *convert : matmuls.late)
    convert->moveBefore(matmuls.last);
  if (matmuls.ready.empty())
    return;
  Operation *next = matmuls.ready.back()->getNextNode();
  while (!isa<DotOp>(next))
    next = next->getNextNode();
  // Broadcasts for that matmul are loaded from shared memory meanwhile.
  auto isThere = [&](Value value) { return value.getParentBlock() != &block; };
  for (auto spread : llvm::make_early_inc_range(block.getOps<BroadcastOp>()))
    if (isThere(spread.getVector()) && spread->isBeforeInBlock(next))
      spread->moveBefore(&block.front());
  SetVector<Operation *> made;
  for (Operation &op : block) {
    auto isMade = [&](Value value) {
      Operation *maker = value.getDefiningOp();
      return maker && (made.contains(maker) || llvm::is_contained(matmuls.ready, maker));
    };
    if (isPure(&op) && op.getNumRegions() == 0 && !isa<DotOp>(op) &&
        llvm::any_of(op.getOperands(), isMade) &&
        llvm::all_of(op.getOperands(), [&](Value v) { return isThere(v) || isMade(v); }))
      made.insert(&op);
  }
  storeInBranch(loop, branch, next, matmuls.last);
  for (Operation *op : made)
    op->moveBefore(next);
}
