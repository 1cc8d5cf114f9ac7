//===- SliceColumns.cpp - columns of a front in slices ---------------------===//
#include "passes/program/SliceColumns.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

int64_t ejk::columnsTreatedAlike(scf::ForOp loop, const llvm::DenseSet<Operation *> &ops) {
  int64_t columns = 0;
  for (Operation &op : *loop.getBody()) {
    auto type = ops.contains(&op) ? dyn_cast<VectorType>(op.getResult(0).getType()) : VectorType();
    if (!type)
      continue;
    bool isOfGuard = type.getRank() == 1 && isa<arith::SelectOp>(op); // by the number of rows
    Attribute constant;
    bool isConstant = matchPattern(op.getResult(0), m_Constant(&constant));
    if (isOfGuard || (isConstant && isa<SplatElementsAttr>(constant)))
      continue;
    if (auto load = dyn_cast<LoadOp>(op); load && getConstantIntValue(load.getChannel()) != 0)
      return 0;
    bool isAlike =
        isa<LoadOp, CumsumOp, vector::ExtractOp>(op) || OpTrait::hasElementwiseMappableTraits(&op);
    if (!isAlike || (columns && columns != type.getShape().back()))
      return 0;
    columns = type.getShape().back();
  }
  return columns;
}

void ejk::sliceColumns(ProgramOp program) {
  int64_t columns = kColumnsOfSlice * int64_t(program.getSlices());
  auto sliced = [&](Type type) -> Type {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector || vector.getShape().back() != columns)
      return type;
    SmallVector<int64_t> shape(vector.getShape());
    shape.back() = kColumnsOfSlice;
    return VectorType::get(shape, vector.getElementType());
  };
  OpBuilder b = OpBuilder::atBlockBegin(&program.getBlock());
  Location loc = program.getLoc();
  auto firstOf = [&](int64_t each) -> Value {
    return arith::MulIOp::create(b, loc, program.getSlice(),
                                 arith::ConstantIndexOp::create(b, loc, each));
  };
  Value first = firstOf(kColumnsOfSlice);
  program.getBlock().walk([&](Operation *op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        constant.setValueAttr(splat.resizeSplat(cast<ShapedType>(sliced(splat.getType()))));
    if (auto load = dyn_cast<LoadOp>(op))
      load.getChannelMutable().assign(first);
    if (auto store = dyn_cast<StoreOp>(op))
      store.getChannelMutable().assign(first);
    if (auto store = dyn_cast<StoreSlotOp>(op)) {
      auto part = cast<VectorType>(store.getTile().getType());
      bool isOfGuard = part.getDimSize(0) == kElementsOfGuard;
      store.getOffsetsMutable().assign(isOfGuard ? firstOf(kElementsOfGuard) : first);
    }
    for (Value result : op->getResults())
      result.setType(sliced(result.getType()));
  });
}
