//===- RowPlan.cpp - distribution of rows over threads, without states ----===//
#include "lowering/step/RowPlan.h"
#include "dialect/ejk/EjkShifts.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/step/StepPlan.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/Support/MathExtras.h"
#include <cstdlib>

using namespace mlir;
using namespace ejk;

/// Shifts by more steps share no rows within a group.
static constexpr int64_t kFarthestShift = 16;

Value RowPlan::addedTo(ScanOp scan, unsigned i) {
  Value arg = scan.getStateArgs()[i];
  auto add = scan.getYield().getStates()[i].getDefiningOp<arith::AddFOp>();
  if (!add || !arg.hasOneUse() || !add->hasOneUse())
    return {};
  return add.getLhs() == arg ? add.getRhs() : add.getRhs() == arg ? add.getLhs() : Value();
}

/// Whether all that `scan` carries are sums of its steps, from zero.
static bool onlySums(ScanOp scan) {
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    auto vector = dyn_cast<VectorType>(arg.getType());
    bool isPlain = getElementTypeOrSelf(arg.getType()).isF32() &&
                   (!vector || vector.getRank() == 1) && !scan.getInitialState(i);
    if (!isPlain || !RowPlan::addedTo(scan, i))
      return false;
  }
  return true;
}

/// Whether lanes compute `op` for the channels that they have.
static bool isOfRows(Operation *op, int64_t channels) {
  if (op->hasTrait<OpTrait::ConstantLike>()) {
    DenseElementsAttr constant;
    return !matchPattern(op, m_Constant(&constant)) || constant.isSplat();
  }
  if (auto rotate = dyn_cast<RotateHalfOp>(op)) // by shuffles, of whole rows
    return getElementTypeOrSelf(rotate.getType()).isF32() && llvm::isPowerOf2_64(channels);
  if (isReduction(op))
    return getElementTypeOrSelf(op->getOperand(0).getType()).isF32();
  if (isa<ejk::YieldOp, CancellingPairOp, StepIndexOp, HeadIndexOp, NumHeadsOp,
          vector::BroadcastOp>(op))
    return true;
  bool isMath = isa_and_nonnull<arith::ArithDialect>(op->getDialect()) ||
                (op->getDialect() && op->getDialect()->getNamespace() == "math");
  return isMath && !op->getNumRegions() && op->getNumResults() == 1;
}

std::optional<RowPlan> RowPlan::of(ScanOp scan) {
  if (!scan.getQueries().empty() || !scan.getSavedStates().empty() || !scan.getSaves().empty() ||
      PooledScan(scan) || !onlySums(scan))
    return std::nullopt;
  RowPlan plan;
  unsigned bits = 32, vectors = 0;
  bool rotates = false;
  auto fits = [&](Type type) {
    auto vector = dyn_cast<VectorType>(type);
    int64_t count = vector ? vector.getNumElements() : 1;
    if (count == 1)
      return true;
    if (vector.getRank() != 1 || (plan.channels > 1 && plan.channels != count))
      return false;
    plan.channels = count;
    return true;
  };
  for (BlockArgument arg : scan.getBody().getArguments())
    if (!fits(arg.getType()))
      return std::nullopt;
  for (auto [arg, rows] : llvm::zip(scan.getSequenceArgs(), scan.getSequences())) {
    if (hasChannels(arg)) {
      bits = std::min(bits, getElementTypeOrSelf(arg.getType()).getIntOrFloatBitWidth());
      ++vectors;
    }
    ShiftOp shift = shiftOfRows(scan, rows);
    if (shift && std::abs(int64_t(shift.getBy())) > kFarthestShift)
      return std::nullopt;
  }
  for (Operation &op : scan.getStep()) {
    if (!llvm::all_of(op.getOperandTypes(), fits) || !llvm::all_of(op.getResultTypes(), fits))
      return std::nullopt;
    rotates |= isa<RotateHalfOp>(op);
  }
  bool isNumbers = plan.channels == 1;
  if ((plan.channels < cost::kFewestChannelsOfRow && !isNumbers) ||
      !llvm::all_of(scan.getStep(), [&](Operation &op) { return isOfRows(&op, plan.channels); }))
    return std::nullopt;
  // A warp for a row where a lane then has four channels of it, and never more than 16 bytes.
  unsigned least = 4, most = 128 / bits;
  while (plan.width < most && plan.channels % (2 * plan.width) == 0 &&
         (plan.width < least || plan.channels >= 64 * plan.width))
    plan.width *= 2;
  uint64_t segments = plan.channels / plan.width;
  plan.lanes = unsigned(std::min<uint64_t>(32, llvm::PowerOf2Ceil(segments)));
  plan.units = unsigned(llvm::divideCeil(segments, plan.lanes));
  if (isNumbers)
    plan.heads = plan.lanes = cost::kHeadsOfRowLanes;
  if (rotates && (isNumbers || plan.units > 1 || plan.isPadded() || plan.lanes < 2))
    return std::nullopt;
  plan.sums = scan.getNumStates() > 0;
  plan.warps = cost::kWarpsOfRows;
  plan.rows = cost::kRowsAtOnce;
  while (plan.rows > 1 && plan.rows * plan.units * plan.width * vectors > cost::kElementsOfRows)
    plan.rows /= 2;
  return plan;
}
