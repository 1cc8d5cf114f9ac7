//===- HoistFromBranches.cpp - operands of products before the branch ------===//
#include "passes/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
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
  unsigned hoistFrom(scf::IfOp branch) {
    unsigned count = hoistSpread(*branch.thenBlock(), branch);
    SmallVector<Operation *> hoisted;
    llvm::DenseSet<Operation *> forProducts = makersOfFactors(*branch.thenBlock());
    for (Operation &op : llvm::make_early_inc_range(branch.thenBlock()->without_terminator()))
      if (forProducts.contains(&op) && op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
          !isa<DotOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
            return operand.getParentBlock() != branch.thenBlock() && isOfChunk(operand);
          })) {
        op.moveBefore(branch);
        hoisted.push_back(&op);
      }
    // A vector that is spread for the branch alone is a tile there alone.
    for (Operation *op : hoisted)
      if (isa<SpreadOp>(op) && llvm::all_of(op->getUsers(), [&](Operation *user) {
            return branch.thenBlock() == user->getBlock();
          }))
        op->moveBefore(&branch.thenBlock()->front());
      else
        ++count;
    return count;
  }

private:
  /// Vectors that are spread over a matrix, and what makes them of others: before the branch,
  /// they share the barrier of its condition on their way to all threads.
  static unsigned hoistSpread(Block &block, scf::IfOp branch) {
    llvm::SetVector<Operation *> makers;
    for (auto spread : block.getOps<SpreadOp>())
      if (Operation *maker = spread.getVector().getDefiningOp())
        collectVectors(maker, block, makers);
    for (Operation *maker : makers)
      maker->moveBefore(branch);
    return makers.size();
  }

  /// `op` of `block` behind all in it that it needs, where all of it are vectors' elementwise ops.
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

  /// The ops of a block that products' factors are made by.
  static llvm::DenseSet<Operation *> makersOfFactors(Block &block) {
    llvm::DenseSet<Operation *> makers;
    SmallVector<Value> factors;
    for (auto dot : block.getOps<DotOp>())
      factors.append({dot.getLhs(), dot.getRhs()});
    while (!factors.empty()) {
      Operation *maker = factors.pop_back_val().getDefiningOp();
      if (maker && maker->getBlock() == &block && makers.insert(maker).second)
        factors.append(maker->operand_begin(), maker->operand_end());
    }
    return makers;
  }

  /// Whether a tile is made of the chunk's rows alone: not of what a loop carries, nor of
  /// products, which take longer than the branch.
  bool isOfChunk(Value value) {
    if (!isa<VectorType>(value.getType()))
      return true;
    Operation *maker = value.getDefiningOp();
    if (!maker || isa<DotOp>(maker) || maker->getNumRegions())
      return false;
    auto [it, isNew] = known.try_emplace(value, true);
    if (isNew)
      known[value] =
          llvm::all_of(maker->getOperands(), [&](Value operand) { return isOfChunk(operand); });
    return known[value];
  }

  llvm::DenseMap<Value, bool> known;
};

struct HoistFromBranchesPass : ejk::impl::HoistFromBranchesBase<HoistFromBranchesPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      Hoister hoister;
      program.walk([&](scf::IfOp branch) { numHoisted += hoister.hoistFrom(branch); });
    });
  }
};
} // namespace
