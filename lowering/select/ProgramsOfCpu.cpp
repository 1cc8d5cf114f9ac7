//===- ProgramsOfCpu.cpp - block programs for a CPU -----------------------===//
#include "lowering/select/ProgramsOfCpu.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ejk;

/// Pairs of columns fill registers of 16 lanes.
static constexpr int64_t kColumns = 32;

bool ejk::mayRunOnCpu(ScanOp scan) {
  return !scan.getSegments() && scan.getSaves().empty() &&
         scan.getSavedStates().empty();
}

static bool fillsRegisters(Type type) {
  auto tile = dyn_cast<VectorType>(type);
  return !tile || tile.getRank() < 2 ||
         (tile.getDimSize(0) % 16 == 0 && tile.getDimSize(1) % kColumns == 0);
}

/// Whether rows or a slot are as wide as the tile that is taken of them.
static bool isWhole(Type element, Type tile) {
  auto part = dyn_cast<VectorType>(element), whole = dyn_cast<VectorType>(tile);
  if (!part || !whole)
    return !part;
  return whole.getRank() == 2 && part.getShape() == whole.getShape().take_back(part.getRank());
}

static bool hasCode(Operation *op) {
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return getElementTypeOrSelf(dot.getLhs().getType()).isBF16() && !dot.getRows();
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return isWhole(load.getRows().getType().getRow(), load.getType());
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return isWhole(store.getRows().getType().getRow(), store.getTile().getType());
  if (auto load = dyn_cast<tile::LoadSlotOp>(op))
    return isa<VectorType>(load.getType()) &&
           load.getSlots().getType().getSlot() == load.getType();
  if (auto store = dyn_cast<tile::StoreSlotOp>(op))
    return isa<VectorType>(store.getTile().getType()) &&
           store.getSlots().getType().getSlot() == store.getTile().getType();
  if (isa<scf::IfOp, scf::ForOp, tile::GuardedOp>(op))
    return llvm::all_of(op->getResultTypes(), llvm::IsaPred<VectorType>);
  if (isa<scf::YieldOp, tile::YieldOp, tile::EndOp, tile::CumsumOp, tile::MaskOp, tile::BroadcastOp, tile::SumOp,
          tile::RangeGuardOp, vector::ExtractOp, vector::BroadcastOp>(op))
    return true;
  if (isa<tile::WindowOp>(op))
    return cast<VectorType>(op->getResult(0).getType()).getRank() == 1;
  if (auto insert = dyn_cast<vector::InsertOp>(op))
    return isa<VectorType>(insert.getValueToStore().getType());
  bool makesNumber = llvm::none_of(op->getResultTypes(), llvm::IsaPred<VectorType>);
  bool takesTiles = llvm::any_of(op->getOperandTypes(), llvm::IsaPred<VectorType>);
  return op->getNumRegions() == 0 && op->getNumResults() == 1 &&
         (op->hasTrait<OpTrait::ConstantLike>() || (makesNumber && !takesTiles) ||
          OpTrait::hasElementwiseMappableTraits(op));
}

bool ejk::runsOnCpu(tile::ProgramOp program) {
  if (program.getSlices() != 1)
    return false;
  for (Value parameter : program.getParameters())
    if (cast<RankedTensorType>(parameter.getType()).getRank() != 1)
      return false;
  WalkResult walked = program.getBody().walk([](Operation *op) {
    bool fills = llvm::all_of(op->getResultTypes(), fillsRegisters);
    return fills && hasCode(op) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !walked.wasInterrupted();
}
