//===- Estimates.cpp - cycles that an op takes ------------------------------===//
#include "lowering/pipeline/Estimates.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static int64_t elementsOf(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type ? type.getNumElements() : 1;
}

int64_t ejk::issueCycles(Operation *op) {
  if (op->getNumResults() == 0 || isa<DotOp, LoadOp>(op))
    return cost::kIssue;
  Value result = op->getResult(0);
  if (isa<ConvertOp>(op))
    return cost::kIssue + 4 * elementsOf(result) / cost::kBytesPerCycle;
  if (auto sum = dyn_cast<tile::SumOp>(op))
    return cost::kIssue + elementsOf(sum.getTile()) / cost::kOpsPerCycle;
  LayoutAttr layout = isa<VectorType>(result.getType()) ? ejk::layoutOf(result) : LayoutAttr();
  if (!isFragments(layout)) // every warp computes the whole vector or scalar
    return isa<CumsumOp>(op) ? 100 : cost::kIssue;
  if (isa<BroadcastOp>(op))
    return 100;
  return cost::kIssue +
         elementsOf(result) /
             (isa<math::ExpOp, math::Exp2Op>(op) ? cost::kExpsPerCycle : cost::kOpsPerCycle);
}

int64_t ejk::matmulCycles(DotOp dot) {
  auto [first, last] = dot.getRange();
  auto [from, to] = dot.getRowRange();
  int64_t columns = dot.getType().getDimSize(1);
  return (to - from) * columns * (last - first) * dot.countProducts() / cost::kMultipliesPerCycle;
}
