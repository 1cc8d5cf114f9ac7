//===- IncludeDiagonal.cpp - include the diagonal term in a read -----------===//
//
// A derived scan adds the diagonal term (x · k) v of a step to a read that excludes the
// step's own outer_add. This pass moves the read after the outer_add, so that the chunk's
// matmul with an inclusive causal mask computes the term.
//
//===----------------------------------------------------------------------===//
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

static Value other(Operation *mul, Value operand) {
  return mul->getOperand(mul->getOperand(0) == operand);
}

/// The next outer_add of a state.
static OuterAddOp nextAdd(Value state) {
  auto adds = llvm::make_filter_range(state.getUsers(),
                                      [](Operation *user) { return isa<OuterAddOp>(user); });
  return llvm::hasSingleElement(adds) ? cast<OuterAddOp>(*adds.begin()) : OuterAddOp();
}

/// Whether `own` is the diagonal term: the result of `read` for `add` alone.
static bool isDiagonalTerm(Value own, ReadOp read, OuterAddOp add) {
  bool alongValue = read.getAxis() == Axis::value;
  Value kept = alongValue ? add.getKey() : add.getValue();
  Value met = alongValue ? add.getValue() : add.getKey();
  auto mul = own.getDefiningOp<arith::MulFOp>();
  if (!mul || !llvm::is_contained(mul->getOperands(), kept))
    return false;
  auto spread = other(mul, kept).getDefiningOp<vector::BroadcastOp>();
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
  Value afterAll = read.getState();
  while (OuterAddOp add = nextAdd(afterAll)) {
    adds.push_back(add);
    afterAll = add;
  }
  // The diagonal term of each add, in any order.
  Value whole = read;
  Operation *user = others.front();
  for (size_t count = adds.size(); count; --count) {
    auto sum = dyn_cast_if_present<arith::AddFOp>(user);
    auto *part = sum ? llvm::find_if(adds,
                                     [&](OuterAddOp add) {
                                       return add->isBeforeInBlock(sum) &&
                                              isDiagonalTerm(other(sum, whole), read, add);
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
  auto after = ReadOp::create(b, read.getLoc(), afterAll, read.getVector(), read.getAxis());
  whole.replaceAllUsesWith(after.getResult());
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
