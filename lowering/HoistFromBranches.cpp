//===- HoistFromBranches.cpp - operands of products before the branch ------===//
#include "lowering/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {
#define GEN_PASS_DEF_HOISTFROMBRANCHES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class Hoister {
public:
  unsigned hoistFrom(scf::IfOp branch) {
    unsigned count = 0;
    llvm::DenseSet<Operation *> forProducts = makersOfFactors(*branch.thenBlock());
    for (Operation &op : llvm::make_early_inc_range(branch.thenBlock()->without_terminator()))
      if (forProducts.contains(&op) && op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
          !isa<DotOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
            return operand.getParentBlock() != branch.thenBlock() && isOfChunk(operand);
          })) {
        op.moveBefore(branch);
        ++count;
      }
    return count;
  }

private:
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
