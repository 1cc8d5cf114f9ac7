//===- IncludeDiagonal.cpp - a step's own part, read with the rest -------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Passes.h"
#include "passes/scan/ScanGroups.h"

namespace ejk {
#define GEN_PASS_DEF_INCLUDEDIAGONAL
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

static Value other(Operation *product, Value operand) {
  return product->getOperand(product->getOperand(0) == operand);
}

/// The outer product that a state gets next.
static OuterAddOp nextAdd(Value state) {
  auto adds = llvm::make_filter_range(state.getUsers(),
                                      [](Operation *user) { return isa<OuterAddOp>(user); });
  return llvm::hasSingleElement(adds) ? cast<OuterAddOp>(*adds.begin()) : OuterAddOp();
}

/// Whether `own` is what `read` would see of `add`.
static bool isOwnPart(Value own, ReadOp read, OuterAddOp add) {
  bool alongValue = read.getAxis() == Axis::value;
  Value kept = alongValue ? add.getKey() : add.getValue();
  Value met = alongValue ? add.getValue() : add.getKey();
  auto product = own.getDefiningOp<arith::MulFOp>();
  if (!product || !llvm::is_contained(product->getOperands(), kept))
    return false;
  auto spread = other(product, kept).getDefiningOp<vector::BroadcastOp>();
  auto dot = spread ? spread.getSource().getDefiningOp<SumOp>() : SumOp();
  auto terms = dot ? dot.getVector().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  return terms && llvm::is_contained(terms->getOperands(), met) &&
         other(terms, met) == read.getVector();
}

static void eraseDead(Operation *op) {
  if (!isOpTriviallyDead(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    if (Operation *maker = operand.getDefiningOp())
      eraseDead(maker);
}

static bool includeDiagonal(ReadOp read) {
  SmallVector<Operation *> others;
  for (Operation *user : read->getUsers())
    if (!isSummedPairing(user))
      others.push_back(user);
  if (others.size() != 1 || llvm::hasSingleElement(read->getUsers()))
    return false;
  SmallVector<OuterAddOp> adds;
  Value behindAll = read.getState();
  while (OuterAddOp add = nextAdd(behindAll)) {
    adds.push_back(add);
    behindAll = add;
  }
  // Each one's part, in any order.
  Value whole = read;
  Operation *user = others.front();
  for (size_t count = adds.size(); count; --count) {
    auto sum = dyn_cast_if_present<arith::AddFOp>(user);
    auto *part = sum ? llvm::find_if(adds,
                                     [&](OuterAddOp add) {
                                       return add->isBeforeInBlock(sum) &&
                                              isOwnPart(other(sum, whole), read, add);
                                     })
                     : adds.end();
    if (part == adds.end())
      return false;
    adds.erase(part);
    whole = sum;
    user = sum->hasOneUse() ? *sum->user_begin() : nullptr;
  }
  if (whole == read)
    return false;
  OpBuilder b(whole.getDefiningOp());
  auto behind = ReadOp::create(b, read.getLoc(), behindAll, read.getVector(), read.getAxis());
  whole.replaceAllUsesWith(behind.getResult());
  eraseDead(whole.getDefiningOp());
  return true;
}

unsigned ejk::includeDiagonal(ArrayRef<ScanOp> scans) {
  unsigned count = 0;
  for (ScanOp scan : scans) {
    auto decays = scan.getStep().getOps<DecayOp>();
    if (llvm::any_of(decays, [](DecayOp decay) { return decay.getAxis() != Axis::head; }))
      continue;
    for (ReadOp read : llvm::to_vector(scan.getStep().getOps<ReadOp>()))
      count += ::includeDiagonal(read);
  }
  return count;
}

namespace {
struct IncludeDiagonalPass : ejk::impl::IncludeDiagonalBase<IncludeDiagonalPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    numIncluded += includeDiagonal(scans);
  }
};
} // namespace
