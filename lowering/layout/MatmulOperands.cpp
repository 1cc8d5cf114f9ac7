//===- MatmulOperands.cpp - A and B of a matmul, and who multiplies -------===//
#include "lowering/layout/MatmulOperands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The most columns of one `wgmma`.
static constexpr int64_t kMostColumns = 256;

MatmulOperands MatmulOperands::of(DotOp op) {
  auto [first, last] = op.getRange();
  ArrayRef<int64_t> rows = op.getRows().value_or(ArrayRef<int64_t>());
  if (isTransposed(layoutOf(op.getResult())))
    return {op.getRhs(), op.getLhs(), !op.getRhsTransposed(), !op.getLhsTransposed(),
            first,       last,        /*rows=*/{},            /*columns=*/rows};
  return {op.getLhs(), op.getRhs(), op.getLhsTransposed(), op.getRhsTransposed(),
          first,       last,        rows};
}

bool ejk::isByWarpgroups(DotOp op) {
  MatmulOperands operands = MatmulOperands::of(op);
  LayoutAttr result = layoutOf(op.getResult()), left = layoutOf(operands.left);
  bool inTerms = op.getAlgorithm() && !op.isInTf32();
  if (inTerms || !op->getParentOfType<ProgramOp>()->hasAttr(kWarpgroupsAttr) ||
      !isSwizzled(layoutOf(operands.right)))
    return false;
  // Whether a row of B in shared memory lies along N, and its rows follow one another along K.
  bool rowsLieAlongN = isTransposed(layoutOf(operands.right)) == operands.rightTransposed;
  int64_t columns = Fragments::of(op.getType(), result).partColumns();
  if (!operands.columns.empty()) {
    if (result.getColumnParts() != 1)
      return false;
    columns = operands.columns.back() - operands.columns.front();
    if (rowsLieAlongN && operands.columns.front() % columns != 0)
      return false;
  }
  if (rowsLieAlongN && !endsSwizzled(columns))
    return false;
  // Rows that get no sum are those where operand A in registers is made zero.
  if (!operands.rows.empty() && isSwizzled(left))
    return false;
  // Numbers of 32 bits are not transposed on the way.
  if (op.isInTf32() && (rowsLieAlongN || isSwizzled(left)))
    return false;
  return result.getRowParts() % kWarpgroup == 0 &&
         Fragments::of(op.getType(), result).partColumns() <= kMostColumns &&
         operands.first % DotOp::kStep == 0 && operands.last % DotOp::kStep == 0 &&
         (isSwizzled(left) || isRegisterOperand(left, operands.leftTransposed, result));
}

static Readers readerOf(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto loop = dyn_cast<scf::ForOp>(user))
    return readersOf(loop.getTiedLoopRegionIterArg(&use));
  if (auto dot = dyn_cast<DotOp>(user))
    return isByWarpgroups(dot) ? Readers::units : Readers::warpMatmuls;
  SmallVector<Value> sums = llvm::map_to_vector(cumsumsReadBy(user), [](CumsumOp op) -> Value { return op; });
  if (isa<AddCumsumOp>(user))
    sums.push_back(user->getResult(0));
  bool isSummed = llvm::any_of(
      sums, [](Value sum) { return hasWarpgroupSums(sum.getType(), layoutOf(sum)); });
  auto store = dyn_cast<StoreOp>(user);
  return isSummed || (store && store.getBulk()) ? Readers::units
         : sums.empty()                         ? Readers::threads
                                                : Readers::warpMatmuls;
}

Readers ejk::readersOf(Value tile) {
  Readers all = Readers::threads;
  for (OpOperand &use : tile.getUses())
    all = std::max(all, readerOf(use));
  return all;
}

Type ejk::summedType(CumsumOp op) {
  auto widened = op.getTile().getDefiningOp<arith::ExtFOp>();
  return widened ? getElementTypeOrSelf(widened.getIn().getType())
                 : BFloat16Type::get(op.getContext());
}

Value ejk::summedInShared(CumsumOp op) {
  auto widened = op.getTile().getDefiningOp<arith::ExtFOp>();
  auto convert = widened ? widened.getIn().getDefiningOp<ConvertOp>() : ConvertOp();
  return convert && isInShared(layoutOf(convert.getTile())) ? convert.getTile() : Value();
}
