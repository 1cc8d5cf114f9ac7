//===- SinkIntoBranches.cpp - sink code after a branch into both paths -----===//
//
// Sinks ops between a `tile.guarded` and the end of its loop's body into both branches, so that
// the branch's matmuls overlap with them and its results need not be live after it.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ejk {
#define GEN_PASS_DEF_SINKINTOBRANCHES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The ops between `branch` and its block's terminator; none if one has regions.
static SmallVector<Operation *> opsAfter(GuardedOp branch) {
  SmallVector<Operation *> ops;
  for (Operation *op = branch->getNextNode(); op != branch->getBlock()->getTerminator();
       op = op->getNextNode()) {
    if (op->getNumRegions())
      return {};
    ops.push_back(op);
  }
  return ops;
}

/// Clones `ops` to the end of one branch, which then yields `wanted`.
static void appendTo(Block &side, GuardedOp branch, ArrayRef<Operation *> ops,
                     ArrayRef<Value> wanted) {
  Operation *yield = side.getTerminator();
  IRMapping mapping;
  mapping.map(branch.getResults(), yield->getOperands());
  OpBuilder b(yield);
  bool isFast = &side == branch.getFastBlock();
  SmallVector<Operation *> copies;
  for (Operation *op : ops) {
    // In a branch, a select on the branch's condition is decided.
    auto choice = dyn_cast<arith::SelectOp>(op);
    if (choice && choice.getCondition() == branch.getGuard())
      mapping.map(choice.getResult(),
                  mapping.lookupOrDefault(isFast ? choice.getTrueValue() : choice.getFalseValue()));
    else
      copies.push_back(b.clone(*op, mapping));
  }
  auto values = llvm::map_to_vector(wanted, [&](Value v) { return mapping.lookupOrDefault(v); });
  tile::YieldOp::create(b, yield->getLoc(), values);
  yield->erase();
  for (Operation *copy : llvm::reverse(copies))
    if (isOpTriviallyDead(copy))
      copy->erase();
}

static unsigned sinkInto(GuardedOp branch) {
  SmallVector<Operation *> ops = opsAfter(branch);
  if (ops.empty())
    return 0;
  Operation *end = branch->getBlock()->getTerminator();
  // The values that the block yields and that are computed by the branch or after it.
  SmallVector<Value> wanted;
  for (Value value : end->getOperands()) {
    Operation *maker = value.getDefiningOp();
    if (maker == branch || llvm::is_contained(ops, maker))
      wanted.push_back(value);
  }
  OpBuilder b(branch);
  auto sunk = GuardedOp::create(b, branch.getLoc(), TypeRange(ValueRange(wanted)), branch.getGuard());
  appendTo(*branch.getFastBlock(), branch, ops, wanted);
  appendTo(*branch.getExactBlock(), branch, ops, wanted);
  sunk.getFast().takeBody(branch.getFast());
  sunk.getExact().takeBody(branch.getExact());
  for (auto [value, result] : llvm::zip(wanted, sunk.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) { return use.getOwner() == end; });
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  branch.erase();
  return ops.size();
}

namespace {
struct SinkIntoBranchesPass : ejk::impl::SinkIntoBranchesBase<SinkIntoBranchesPass> {
  void runOnOperation() override {
    SmallVector<GuardedOp> branches;
    getOperation()->walk([&](GuardedOp branch) {
      auto program = branch->getParentOfType<ProgramOp>();
      bool laidOut = program && program->hasAttr(kWarpsAttr);
      if (program && !laidOut && isa<scf::ForOp>(branch->getParentOp()) &&
          llvm::any_of(*branch.getFastBlock(), [](Operation &op) { return isa<DotOp>(op); }))
        branches.push_back(branch);
    });
    for (GuardedOp branch : branches)
      numSunk += sinkInto(branch);
  }
};
} // namespace
