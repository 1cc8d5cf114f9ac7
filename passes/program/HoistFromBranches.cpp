//===- HoistFromBranches.cpp - matmul operands before the branch -----------===//
//
// Hoists the computation of matmul operands out of a branch if it depends only on the
// chunk's rows. It then overlaps with the previous chunk's matmuls, and shares the barrier
// of the range guard.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_HOISTFROMBRANCHES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class Hoister {
public:
  unsigned hoistFrom(GuardedOp branch) {
    unsigned count = hoistBroadcastVectors(*branch.getFastBlock(), branch);
    SmallVector<Operation *> hoisted;
    llvm::DenseSet<Operation *> forMatmuls = matmulOperandMakers(*branch.getFastBlock());
    for (Operation &op : llvm::make_early_inc_range(branch.getFastBlock()->without_terminator()))
      if (forMatmuls.contains(&op) && op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
          !isa<DotOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
            return operand.getParentBlock() != branch.getFastBlock() && dependsOnRowsOnly(operand);
          })) {
        op.moveBefore(branch);
        hoisted.push_back(&op);
      }
    // A broadcast that only the branch uses stays in the branch, where its matrix is live shorter.
    for (Operation *op : hoisted)
      if (isa<BroadcastOp>(op) && llvm::all_of(op->getUsers(), [&](Operation *user) {
            return branch.getFastBlock() == user->getBlock();
          }))
        op->moveBefore(&branch.getFastBlock()->front());
      else
        ++count;
    return count;
  }

private:
  /// Hoists vectors that are broadcast, with the elementwise ops that compute them: before the
  /// branch they share the range guard's barrier.
  static unsigned hoistBroadcastVectors(Block &block, GuardedOp branch) {
    llvm::SetVector<Operation *> makers;
    for (auto spread : block.getOps<BroadcastOp>())
      if (Operation *maker = spread.getVector().getDefiningOp())
        collectVectors(maker, block, makers);
    for (Operation *maker : makers)
      maker->moveBefore(branch);
    return makers.size();
  }

  /// Adds `op` of `block` after the ops that it needs; false if one of those is no elementwise op
  /// on vectors.
  static bool collectVectors(Operation *op, Block &block, llvm::SetVector<Operation *> &makers) {
    if (op->getBlock() != &block || makers.contains(op))
      return true;
    auto type = dyn_cast<VectorType>(op->getResult(0).getType());
    if (!type || type.getRank() != 1 || !OpTrait::hasElementwiseMappableTraits(op) || !isPure(op))
      return false;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && !collectVectors(maker, block, makers))
        return false;
    makers.insert(op);
    return true;
  }

  /// The ops of a block that matmul operands depend on.
  static llvm::DenseSet<Operation *> matmulOperandMakers(Block &block) {
    llvm::DenseSet<Operation *> makers;
    SmallVector<Value> operands;
    for (auto dot : block.getOps<DotOp>())
      operands.append({dot.getLhs(), dot.getRhs()});
    while (!operands.empty()) {
      Operation *maker = operands.pop_back_val().getDefiningOp();
      if (maker && maker->getBlock() == &block && makers.insert(maker).second)
        operands.append(maker->operand_begin(), maker->operand_end());
    }
    return makers;
  }

  /// Whether a tile depends only on the chunk's rows: not on loop-carried values, and not on
  /// matmuls, which take longer than the branch.
  bool dependsOnRowsOnly(Value value) {
    if (!isa<VectorType>(value.getType()))
      return true;
    Operation *maker = value.getDefiningOp();
    if (!maker || isa<DotOp>(maker) || maker->getNumRegions())
      return false;
    auto [it, isNew] = known.try_emplace(value, true);
    if (isNew)
      known[value] = llvm::all_of(maker->getOperands(),
                                  [&](Value operand) { return dependsOnRowsOnly(operand); });
    return known[value];
  }

  llvm::DenseMap<Value, bool> known;
};

struct HoistFromBranchesPass : ejk::impl::HoistFromBranchesBase<HoistFromBranchesPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      Hoister hoister;
      program.walk([&](GuardedOp branch) { numHoisted += hoister.hoistFrom(branch); });
    });
  }
};
} // namespace
