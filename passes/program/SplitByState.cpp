//===- SplitByState.cpp - a chunk's front as a partition -------------------===//
//
// Matmuls and inverses of a chunk's rows are worth handing over, with all that is computed from
// them, and so are vectors, whose sums and exponentials are chains of latencies, and whose loads
// take registers for their addresses.
//
//===----------------------------------------------------------------------===//
#include "passes/program/SplitByState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/program/StateDivider.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

scf::ForOp ejk::loopOverChunks(ProgramOp program) {
  auto loops = program.getBlock().getOps<scf::ForOp>();
  return !loops.empty() && llvm::hasSingleElement(loops) ? *loops.begin() : scf::ForOp();
}

/// The operand of `mul` that spreads a vector over a matrix, and the other one; null if there is none.
static std::pair<BroadcastOp, Value> scaleOf(arith::MulFOp mul) {
  for (unsigned i : {0, 1})
    if (auto spread = mul->getOperand(i).getDefiningOp<BroadcastOp>())
      return {spread, mul->getOperand(1 - i)};
  return {};
}

/// Multiplies vectors that scale a matrix one after the other with each other. The front then has two
/// vectors to multiply, and the state's side one matrix to scale.
static void combineScales(scf::ForOp loop) {
  for (auto mul : llvm::make_early_inc_range(loop.getBody()->getOps<arith::MulFOp>())) {
    auto [outer, scaled] = scaleOf(mul);
    auto inner = scaled ? scaled.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!inner || !inner->hasOneUse() || inner->getBlock() != mul->getBlock())
      continue;
    auto [other, matrix] = scaleOf(inner);
    if (!other || other.getDim() != outer.getDim())
      continue;
    OpBuilder b(mul);
    Value vector =
        arith::MulFOp::create(b, mul.getLoc(), other.getVector(), outer.getVector());
    Value spread =
        BroadcastOp::create(b, mul.getLoc(), outer.getType(), vector, outer.getDimAttr());
    mul->setOperands({matrix, spread});
    inner.erase();
  }
}

namespace {
class PartitionDivider : public StateDivider {
public:
  PartitionDivider(ProgramOp program, scf::ForOp loop) : StateDivider(program, loop) {}

private:
  bool isOfState(Operation *) override { return false; }
  bool isCostly(Operation *op) override {
    return isa<DotOp, SolveOp, InvertDiagonalOp, MergeInversesOp>(op);
  }
  bool isHandedOver(Value value) override {
    Operation *def = value.getDefiningOp();
    if (!isa<VectorType>(value.getType()))
      return false;
    return isMatrix(value.getType())
               ? isWorth(def)
               : !isa<vector::BroadcastOp>(def) && !def->hasTrait<OpTrait::ConstantLike>();
  }
  bool goesByRows(Value) override { return true; }
  bool suits() override {
    return llvm::any_of(loop.getBody()->getOps<DotOp>(), [&](DotOp dot) { return isWorth(dot); });
  }

  bool takesEarly(Value) override { return false; }

  /// The state's side waits for vectors first.
  void cloneBody(IRMapping &map) override {
    llvm::DenseSet<Operation *> early;
    SmallVector<Value> left =
        llvm::filter_to_vector(handedOver, [](Value tile) { return !isMatrix(tile.getType()); });
    while (!left.empty())
      if (Operation *def = left.pop_back_val().getDefiningOp();
          def && def->getBlock() == loop.getBody() && early.insert(def).second)
        left.append(def->operand_begin(), def->operand_end());
    for (bool isEarly : {true, false})
      for (Operation &op : *loop.getBody())
        if (ops.contains(&op) && early.contains(&op) == isEarly)
          b.clone(op, map);
  }
};
} // namespace

std::optional<ProgramsByState> ejk::splitByState(ProgramOp program) {
  scf::ForOp loop = loopOverChunks(program);
  if (!loop || !program.getBlock().getOps<MakeRingOp>().empty())
    return {};
  auto copy = cast<ProgramOp>(OpBuilder(program).clone(*program));
  combineScales(loopOverChunks(copy));
  std::optional<ProgramsByState> parts = PartitionDivider(copy, loopOverChunks(copy)).run();
  copy.erase();
  return parts;
}
