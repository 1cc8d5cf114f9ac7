//===- SliceRowsEarly.cpp - compute one row instead of a tile --------------===//
//
// Moves the extraction of a row before the elementwise ops that compute its tile, so that
// they compute a vector and not a matrix.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ejk {
#define GEN_PASS_DEF_SLICEROWSEARLY
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// Clones the ops that compute a tile for its row `at`.
class RowMaker {
public:
  RowMaker(vector::ExtractOp extract)
      : b(extract), loc(extract.getLoc()), at(extract.getMixedPosition().front()) {}

  /// The row of `maker`'s result; null if `maker` cannot compute a single row.
  Value makeFrom(Operation *maker) {
    return llvm::TypeSwitch<Operation *, Value>(maker)
        .Case([&](BroadcastOp spread) -> Value {
          if (spread.getDim() == 1)
            return spread.getVector();
          Value number = vector::ExtractOp::create(b, loc, spread.getVector(), at);
          return vector::BroadcastOp::create(b, loc, rowType(spread.getType()), number);
        })
        .Case([&](vector::BroadcastOp broadcast) -> Value {
          if (isa<VectorType>(broadcast.getSourceType()))
            return {};
          return vector::BroadcastOp::create(b, loc, rowType(broadcast.getType()),
                                             broadcast.getSource());
        })
        .Case([&](WindowOp window) { return makeWindow(window); })
        .Default([&](Operation *op) { return makeElementwise(op); });
  }

private:
  static VectorType rowType(Type tile) {
    auto type = cast<VectorType>(tile);
    return VectorType::get(type.getShape().drop_front(), type.getElementType());
  }

  Value rowOf(Value tile) {
    if (Operation *maker = tile.getDefiningOp())
      if (Value row = makeFrom(maker))
        return row;
    return vector::ExtractOp::create(b, loc, tile, at);
  }

  Value makeElementwise(Operation *op) {
    DenseElementsAttr constant;
    if (matchPattern(op, m_Constant(&constant)) && constant.isSplat())
      return arith::ConstantOp::create(b, loc,
                                       DenseElementsAttr::get(rowType(op->getResult(0).getType()),
                                                              constant.getSplatValue<Attribute>()));
    if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() != 1)
      return {};
    IRMapping rows;
    for (Value operand : op->getOperands())
      if (isa<VectorType>(operand.getType()) && !rows.contains(operand))
        rows.map(operand, rowOf(operand));
    Operation *row = b.clone(*op, rows);
    row->getResult(0).setType(rowType(op->getResult(0).getType()));
    return row->getResult(0);
  }

  Value makeWindow(WindowOp window) {
    VectorType type = rowType(window.getType());
    Value inside =
        WindowOp::create(b, loc, type, rowOf(window.getTile()), window.getFrom().drop_front(),
                         window.getTo().drop_front(), window.getOtherwiseAttr());
    Value row = dyn_cast<Value>(at);
    if (!row)
      row = arith::ConstantIndexOp::create(b, loc, *getConstantIntValue(at));
    auto compare = [&](arith::CmpIPredicate predicate, Value bound) -> Value {
      return arith::CmpIOp::create(b, loc, predicate, row, bound);
    };
    Value counts =
        arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::sge, window.getFrom().front()),
                              compare(arith::CmpIPredicate::slt, window.getTo().front()));
    Value otherwise = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, Attribute(window.getOtherwiseAttr())));
    return arith::SelectOp::create(b, loc, counts, inside, otherwise);
  }

  OpBuilder b;
  Location loc;
  OpFoldResult at;
};

struct SliceRowsEarlyPass : ejk::impl::SliceRowsEarlyBase<SliceRowsEarlyPass> {
  void runOnOperation() override {
    SmallVector<vector::ExtractOp> extracts;
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return; // laid out already
      program.walk([&](vector::ExtractOp extract) {
        if (extract.getSourceVectorType().getRank() == 2 && isa<VectorType>(extract.getType()))
          extracts.push_back(extract);
      });
    });
    for (vector::ExtractOp extract : extracts) {
      Operation *maker = extract.getSource().getDefiningOp();
      Value row = maker ? RowMaker(extract).makeFrom(maker) : Value();
      if (!row)
        continue;
      extract.replaceAllUsesWith(row);
      extract.erase();
      ++numTaken;
    }
  }
};
} // namespace
