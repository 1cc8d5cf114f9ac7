//===- ScaleAfterRead.cpp - scale what is read, not what reads it ----------===//
//
// read(S, c·x) = c · read(S, x), and adding (c·x) uᵀ adds x (c·u)ᵀ. Where x is a row as it was given,
// in 16 bits, a chunk's matmuls then take it as it was loaded.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScaleAfterRead.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"

namespace ejk {
#define GEN_PASS_DEF_SCALEAFTERREAD
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// A vector that is a given 16-bit row times a number.
struct ScaledRow {
  Value row, number;
};
} // namespace

/// `vector`, if it is a row divided by what a sum over its channels says.
static std::optional<ScaledRow> normalisedRow(ScanOp scan, Value vector) {
  auto product = vector.getDefiningOp<arith::MulFOp>();
  for (unsigned side : {0, 1}) {
    auto row = product ? product->getOperand(side).getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
    auto spread = row ? product->getOperand(1 - side).getDefiningOp<vector::BroadcastOp>()
                      : vector::BroadcastOp();
    if (!spread || !spread.getSourceType().isF32() ||
        !llvm::is_contained(scan.getSequenceArgs(), row.getIn()))
      continue;
    auto made = computedFrom(spread.getSource());
    bool isSummed = llvm::any_of(made, [](Value v) { return isReduction(v.getDefiningOp()); });
    bool readsState = llvm::any_of(made, [](Value v) { return bool(v.getDefiningOp<ReadOp>()); });
    if (isSummed && !readsState)
      return ScaledRow{row, spread.getSource()};
  }
  return std::nullopt;
}

/// The ops of `scan` whose first vector is such a row. Only where it corrects its state, whose keys
/// need two terms otherwise, and is not gated by channel, as then they are scaled anyway; not in a
/// derivative.
static SmallVector<std::pair<Operation *, ScaledRow>> scaledRowsOf(ScanOp scan) {
  SmallVector<std::pair<Operation *, ScaledRow>> found;
  auto gates = getDecayClass(scan);
  bool byHead =
      gates == DecayClass::none || gates == DecayClass::constant || gates == DecayClass::scalar;
  if (!byHead || !correctsState(scan) || scan->getParentOp()->hasAttr(kDerivativeOfAttr))
    return found;
  for (Operation &op : scan.getStep())
    if (isa<ReadOp, OuterAddOp>(op))
      if (auto scaled = normalisedRow(scan, op.getOperand(1)))
        found.push_back({&op, *scaled});
  return found;
}

/// `vector` times `number`, in all channels.
static Value times(OpBuilder &b, Location loc, Value vector, Value number) {
  Value spread = vector::BroadcastOp::create(b, loc, vector.getType(), number);
  return arith::MulFOp::create(b, loc, vector, spread);
}

static void scaleAfter(Operation *op, ScaledRow scaled) {
  OpBuilder b(op);
  op->setOperand(1, scaled.row);
  if (auto add = dyn_cast<OuterAddOp>(op)) {
    add.getValueMutable().set(times(b, op->getLoc(), add.getValue(), scaled.number));
    return;
  }
  b.setInsertionPointAfter(op);
  Value read = op->getResult(0), product = times(b, op->getLoc(), read, scaled.number);
  read.replaceAllUsesExcept(product, product.getDefiningOp());
}

unsigned ejk::scaleAfterRead(ArrayRef<ScanOp> scans) {
  unsigned count = 0;
  for (ScanOp scan : scans)
    for (auto [op, scaled] : scaledRowsOf(scan)) {
      scaleAfter(op, scaled);
      ++count;
    }
  return count;
}

namespace {
struct ScaleAfterReadPass : ejk::impl::ScaleAfterReadBase<ScaleAfterReadPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ScanOp scan) { numScaled += scaleAfterRead(scan); });
  }
};
} // namespace
