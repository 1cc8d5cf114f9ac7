//===- RegisterEstimate.cpp - registers that tiles need --------------------===//
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/target/CostModel.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `value` is a constant of one number, however it is laid out.
static bool isUniformConstant(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  LayoutAttr from = convert ? ejk::layoutOf(convert.getTile()) : LayoutAttr();
  return from && from.getKind() == LayoutKind::uniform;
}

/// The registers that a tile of any layout occupies in a thread.
static int64_t registersOfTile(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  LayoutAttr layout = type ? ejk::layoutOf(value) : LayoutAttr();
  if (!layout || isUniformConstant(value))
    return 0;
  if (isRows(layout))
    return 2 * Fragments::ofRows(type, layout).rowTiles();
  if (layout.getKind() == LayoutKind::lanes)
    return lanesSize(lanesLength(type));
  return registersOf(value);
}

namespace {
/// The tiles that are live at a place of a program, and the most that were.
class LiveTiles {
public:
  explicit LiveTiles(int64_t &most) : most(most) {}

  /// Goes up a block, at whose end the tiles are live that are live now.
  void visit(Block &block) {
    for (Operation &op : llvm::reverse(block))
      visit(&op);
  }

private:
  void visit(Operation *op) {
    note();
    for (Region &region : op->getRegions())
      for (Block &inner : region) {
        LiveTiles live = *this;
        for (Value result : op->getResults())
          live.end(result);
        // What a loop uses in any iteration is live in all.
        if (isa<LoopLikeOpInterface>(op))
          live.startUsesFromOutside(op);
        live.visit(inner);
      }
    // A matmul writes its result while it reads its operands, unless it adds in place.
    if (auto dot = dyn_cast<DotOp>(op)) {
      start(dot.getLhs());
      start(dot.getRhs());
      note();
    }
    for (Value result : op->getResults())
      end(result);
    for (Value operand : op->getOperands())
      start(operand);
    startUsesFromOutside(op);
    note();
  }

  void startUsesFromOutside(Operation *op) {
    for (Region &region : op->getRegions())
      region.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
            start(operand);
      });
  }

  void start(Value value) {
    if (isa<VectorType>(value.getType()) && live.insert(value).second)
      registers += registersOfTile(value);
  }
  void end(Value value) {
    if (live.erase(value))
      registers -= registersOfTile(value);
  }
  void note() { most = std::max(most, registers); }

  llvm::DenseSet<Value> live;
  int64_t registers = 0;
  int64_t &most;
};
} // namespace

int64_t ejk::registersOfLiveTiles(ProgramOp program) {
  int64_t most = 0;
  LiveTiles(most).visit(program.getBlock());
  return most;
}

bool ejk::fitsRegisters(ProgramOp program, int64_t ofTiles) {
  cost::ProgramShape shape;
  shape.hasWgmma = program->hasAttr(kWarpgroupsAttr);
  shape.tensors = program->getNumOperands() + program->getNumResults();
  program.walk([&](GuardedOp) { shape.hasBranch = true; });
  return cost::fitsRegisters(ofTiles, shape);
}
