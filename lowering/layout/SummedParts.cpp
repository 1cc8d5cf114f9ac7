//===- SummedParts.cpp - tiles that are summed block by block -------------===//
#include "lowering/layout/SummedParts.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `op` can be computed block by block: an elementwise op on fragments, or a load from a
/// swizzled tile.
static bool canComputeByBlocks(Operation *op) {
  if (op->getNumResults() != 1 || !isFragments(layoutOf(op->getResult(0))))
    return false;
  if (auto convert = dyn_cast<ConvertOp>(op))
    return isSwizzled(layoutOf(convert.getTile()));
  return OpTrait::hasElementwiseMappableTraits(op) && !op->hasTrait<OpTrait::ConstantLike>();
}

llvm::DenseMap<Operation *, Operation *> ejk::findSummedInParts(ProgramOp program) {
  llvm::DenseMap<Operation *, Operation *> summedInParts;
  program.walk([&](Operation *sum) {
    if (!isa<tile::SumOp, PartialSumOp>(sum))
      return;
    Value summed = sum->getOperand(0);
    llvm::SetVector<Operation *> found;
    SmallVector<Value> left = {summed};
    bool reads = false;
    while (!left.empty()) {
      Operation *op = left.pop_back_val().getDefiningOp();
      if (!op || op->getBlock() != sum->getBlock() || !canComputeByBlocks(op) ||
          layoutOf(op->getResult(0)) != layoutOf(summed) ||
          !llvm::all_of(op->getUsers(),
                        [&](Operation *user) { return user == sum || found.contains(user); }))
        continue;
      found.insert(op);
      reads |= isa<ConvertOp>(op);
      if (!isa<ConvertOp>(op))
        left.append(op->operand_begin(), op->operand_end());
    }
    // A ring op in between could let the tile be overwritten.
    auto crossesRingOp = [&](Operation *op) {
      auto isOnRing = [](Operation *inner) {
        return isa<AcquireOp, ReleaseOp, TakeOp>(inner) ? WalkResult::interrupt()
                                                        : WalkResult::advance();
      };
      for (; op != sum; op = op->getNextNode())
        if (op->walk(isOnRing).wasInterrupted())
          return true;
      return false;
    };
    Fragments f = Fragments::of(summed.getType(), layoutOf(summed));
    if (!reads || f.columnTiles() % 2 || llvm::any_of(found, crossesRingOp))
      return;
    for (Operation *op : found)
      summedInParts[op] = sum;
  });
  return summedInParts;
}

bool ejk::isTotal(CumsumOp op) {
  int64_t last = op.getReverse() ? 0 : lanesLength(op.getType()) - 1;
  return !op.getExclusive() && !op.getFrom() && llvm::all_of(op->getUsers(), [&](Operation *user) {
    auto extract = dyn_cast<vector::ExtractOp>(user);
    return extract && getConstantIntValue(extract.getMixedPosition().front()) == last;
  });
}
