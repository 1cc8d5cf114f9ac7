//===- SpilledToShared.cpp - tiles spilled to shared memory ----------------===//
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileLayout.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

Value RowByRow::argument() const { return scf::ForOp(loop).getRegionIterArg(number); }
Value RowByRow::result() const { return scf::ForOp(loop).getResult(number); }
OpOperand &RowByRow::init() const { return scf::ForOp(loop).getInitArgsMutable()[number]; }

SmallVector<RowByRow> ejk::findRowByRow(Operation *op) {
  SmallVector<RowByRow> found;
  op->walk([&](vector::InsertOp insert) {
    auto arg = dyn_cast<BlockArgument>(insert.getDest());
    auto loop = dyn_cast<scf::ForOp>(insert->getParentOp());
    if (!arg || !loop || arg.getOwner() != loop.getBody() || !arg.hasOneUse() ||
        insert.getDestVectorType().getRank() != 2 ||
        !isa<VectorType>(insert.getValueToStoreType()) || !insert.getResult().hasOneUse())
      return;
    OpOperand &use = *insert.getResult().use_begin();
    unsigned number = arg.getArgNumber() - loop.getNumInductionVars();
    if (isa<scf::YieldOp>(use.getOwner()) && use.getOperandNumber() == number)
      found.push_back({insert, loop, number});
  });
  return found;
}

static void setLayout(Operation *op, unsigned number, LayoutAttr layout) {
  SmallVector<Attribute> layouts(op->getAttrOfType<ArrayAttr>(kLayoutsAttr).getValue());
  layouts[number] = layout;
  op->setAttr(kLayoutsAttr, ArrayAttr::get(op->getContext(), layouts));
}

static SmallVector<RowByRow> findInShared(ProgramOp program) {
  SmallVector<RowByRow> found = findRowByRow(program);
  llvm::erase_if(found,
                 [](const RowByRow &matrix) { return !isInShared(layoutOf(matrix.result())); });
  return found;
}

bool ejk::isOnExactPath(Operation *op) {
  auto paths = dyn_cast<GuardedOp>(op->getParentOp());
  return paths && op->getBlock() == paths.getExactBlock();
}

/// Spills of operand A whose only users are matmuls on the exact path.
static SmallVector<ConvertOp> findSpilledOperands(ProgramOp program) {
  SmallVector<ConvertOp> found;
  program.walk([&](ConvertOp store) {
    LayoutAttr own = layoutOf(store.getTile());
    if (isSwizzled(store.getLayout()) && isFragments(own) && isOnExactPath(store) &&
        !store->use_empty() && llvm::all_of(store->getUses(), [&](OpOperand &use) {
          auto dot = dyn_cast<DotOp>(use.getOwner());
          return dot && isOnExactPath(dot) &&
                 isRegisterOperand(use, own, layoutOf(dot.getResult()));
        }))
      found.push_back(store);
  });
  return found;
}

unsigned ejk::countSpilledTiles(ProgramOp program) {
  return findInShared(program).size() + findSpilledOperands(program).size();
}

static void keepMatrixInRegisters(RowByRow matrix, unsigned warps) {
  // Use the layout in which the matrix is read.
  LayoutAttr layout = computedLayout(matrix.insert.getType(), warps);
  SmallVector<ConvertOp> reads;
  for (Operation *user : matrix.result().getUsers())
    reads.push_back(cast<ConvertOp>(user));
  for (ConvertOp read : reads)
    if (isFragments(read.getLayout()))
      layout = read.getLayout();
  OpBuilder b(matrix.loop);
  OpOperand &init = matrix.init();
  auto stored = init.get().getDefiningOp<ConvertOp>();
  init.set(ConvertOp::create(b, stored.getLoc(), stored.getType(), stored.getTile(), layout));
  stored.erase();
  setLayout(matrix.loop, matrix.number, layout);
  setLayout(matrix.insert, 0, layout);
  // A warp may need elements of the row that other warps have, so they exchange it through shared
  // memory.
  b.setInsertionPoint(matrix.insert);
  Value row = matrix.insert.getValueToStore();
  if (isRows(layoutOf(row))) {
    auto shared = LayoutAttr::get(b.getContext(), LayoutKind::shared, 0, 0);
    Value there = ConvertOp::create(b, row.getLoc(), row.getType(), row, shared);
    row.replaceUsesWithIf(there, [&](OpOperand &use) { return use.getOwner() == matrix.insert; });
  }
  for (ConvertOp read : reads)
    if (read.getLayout() == layout) {
      read.replaceAllUsesWith(matrix.result());
      read.erase();
    }
}

void ejk::keepInRegisters(ProgramOp program, uint64_t which) {
  unsigned warps = program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt(), number = 0;
  auto isSelected = [&] { return which >> std::min(number++, 63u) & 1; };
  SmallVector<RowByRow> matrices = findInShared(program);
  SmallVector<ConvertOp> operands = findSpilledOperands(program);
  for (const RowByRow &matrix : matrices)
    if (isSelected())
      keepMatrixInRegisters(matrix, warps);
  for (ConvertOp operand : operands)
    if (isSelected()) {
      operand.replaceAllUsesWith(operand.getTile());
      operand.erase();
    }
}
