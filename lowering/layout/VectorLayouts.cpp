//===- VectorLayouts.cpp - which vectors have a slice layout ---------------===//
#include "lowering/layout/VectorLayouts.h"
#include "lowering/layout/TileOrientation.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static bool isVector(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() == 1;
}

VectorLayouts::VectorLayouts(ProgramOp program, llvm::function_ref<LayoutAttr(Value)> computed) {
  program.walk([&](Operation *op) { collect(op, computed); });
  for (auto [vector, layout] : proposals) {
    void *leader = classOf(vector);
    auto [known, isNew] = layouts.try_emplace(leader, layout);
    if (!isNew && known->second != layout)
      known->second = {};
  }
  // `rows` pays only for vectors that come from matrices and go to matrices. Others stay in
  // `lanes`.
  llvm::DenseSet<void *> made, kept;
  for (Value vector : ofMatrices) {
    made.insert(classOf(vector));
    if (vector.getDefiningOp<vector::ExtractOp>())
      kept.insert(classOf(vector));
  }
  for (Value vector : alongMatrices)
    kept.insert(classOf(vector));
  for (auto &[leader, layout] : layouts)
    if (!made.contains(leader) || !kept.contains(leader))
      layout = {};
}

void *VectorLayouts::classOf(Value value) const {
  auto leader = classes.findLeader(value.getAsOpaquePointer());
  return leader == classes.member_end() ? nullptr : *leader;
}

LayoutAttr VectorLayouts::layoutOf(Value vector) const {
  void *leader = classOf(vector);
  return leader ? layouts.lookup(leader) : LayoutAttr();
}

void VectorLayouts::join(Value a, Value b) {
  if (isVector(a) && isVector(b) && !isUniformTile(a) && !isUniformTile(b))
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
}

void VectorLayouts::propose(Value vector, LayoutAttr layout) {
  if (isUniformTile(vector))
    return;
  classes.insert(vector.getAsOpaquePointer());
  proposals.push_back({vector, layout});
}

/// The layout of a vector along the stored rows of a matrix; with `isWhole`, only if each warp has
/// whole rows.
static LayoutAttr alongRows(LayoutAttr matrix, bool isWhole) {
  if (!isFragments(matrix) || (isWhole && matrix.getColumnParts() != 1))
    return {};
  return LayoutAttr::get(matrix.getContext(), LayoutKind::rows, matrix.getRowParts(), 1);
}

void VectorLayouts::collect(Operation *op, llvm::function_ref<LayoutAttr(Value)> computed) {
  // Whether `dim` of the matrix is its stored rows.
  auto isRow = [](LayoutAttr layout, unsigned dim) {
    return dim == unsigned(isTransposed(layout));
  };
  if (auto sum = dyn_cast<tile::SumOp>(op)) {
    LayoutAttr matrix = computed(sum.getTile());
    ofMatrices.push_back(sum);
    propose(sum,
            isRow(matrix, 1 - sum.getDim()) ? alongRows(matrix, /*isWhole=*/true) : LayoutAttr());
  } else if (auto spread = dyn_cast<BroadcastOp>(op)) {
    LayoutAttr matrix = computed(spread.getResult());
    // A broadcast along the other dimension reads the vector from shared memory.
    if (!isRow(matrix, spread.getDim()))
      return;
    propose(spread.getVector(), alongRows(matrix, /*isWhole=*/false));
    alongMatrices.push_back(spread.getVector());
  } else if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (isVector(extract.getSource()))
      return propose(extract.getSource(), {});
    if (!isVector(extract.getResult()) || isUniformTile(extract.getSource()))
      return;
    // Rows of loaded tiles are read from shared memory in any layout.
    classes.insert(extract.getResult().getAsOpaquePointer());
    if (extract.getSource().getDefiningOp<LoadOp>())
      return;
    LayoutAttr matrix = computed(extract.getSource());
    ofMatrices.push_back(extract.getResult());
    propose(extract.getResult(),
            isRow(matrix, 1) ? alongRows(matrix, /*isWhole=*/true) : LayoutAttr());
  } else if (joinPassedOn(op, [&](Value a, Value b) { join(a, b); })) {
    return;
  } else if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1) {
    for (Value operand : op->getOperands())
      join(operand, op->getResult(0));
  } else if (!isa<RangeGuardOp, scf::YieldOp, tile::YieldOp, vector::InsertOp>(op)) {
    // Vectors that are scanned, sliced, loaded or stored are in `lanes`.
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        if (isVector(value))
          propose(value, {});
  }
}
