//===- TilePlan.cpp - verifiers of the ops of a plan ----------------------===//
#include "dialect/tile/Tile.h"
#include "dialect/tile/TileVerify.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

LogicalResult tile::verifyFrom(Operation *op, std::optional<int64_t> from, int64_t rows,
                               StringRef constraint) {
  if (from && (*from < 0 || *from >= rows))
    return op->emitOpError() << "'from' must be the number of one of " << rows << " rows ("
                             << constraint << "), but is " << *from;
  return success();
}

LogicalResult tile::verifyTriangle(Operation *op, Value triangle, bool reverse, bool exclusive,
                                   std::optional<int64_t> from, int64_t rows,
                                   StringRef constraint) {
  if (!triangle)
    return success();
  auto made = triangle.getDefiningOp<TriangleOp>();
  if (made && made.getReverse() == reverse && made.getExclusive() == exclusive &&
      made.getFrom() == from && cast<VectorType>(made.getType()).getDimSize(0) == rows)
    return success();
  return op->emitOpError() << "the triangle must be a tile.triangle of the same sums, with " << rows
                           << " rows (" << constraint << ")";
}

static LogicalResult verifyTurn(Operation *op) {
  if (auto program = op->getParentOfType<ProgramOp>(); program && program.getTurns())
    return success();
  return op->emitOpError("must stand in a program that has 'turns' (C1)");
}

LogicalResult AwaitTurnOp::verify() { return verifyTurn(*this); }
LogicalResult PassTurnOp::verify() { return verifyTurn(*this); }

static LogicalResult verifySameShape(Operation *op, Type tile, Type other, StringRef constraint) {
  auto shape = cast<VectorType>(tile).getShape(), found = cast<VectorType>(other).getShape();
  if (shape == found)
    return success();
  return op->emitOpError() << "the term must have the shape of " << other << " (" << constraint
                           << "), but is " << tile;
}

LogicalResult SplitTermOp::verify() {
  return verifySameShape(*this, getTerm().getType(), getTile().getType(), "C1");
}

LogicalResult TriangleOp::verify() {
  auto type = cast<VectorType>(getType());
  if (type.getDimSize(0) != type.getDimSize(1))
    return emitOpError() << "must be square (C1), but is " << type;
  return verifyFrom(*this, getFrom(), type.getDimSize(0), "C2");
}

LogicalResult AddCumsumOp::verify() {
  if (failed(verifySameShape(*this, getTerm().getType(), getType(), "C1")))
    return failure();
  int64_t rows = cast<VectorType>(getType()).getDimSize(0);
  if (failed(verifyFrom(*this, getFrom(), rows, "C2")))
    return failure();
  if (getTriangle() &&
      getElementTypeOrSelf(getTriangle().getType()) != getElementTypeOrSelf(getTerm().getType()))
    return emitOpError() << "the triangle must have the term's element type (C3), but is "
                         << getTriangle().getType();
  return verifyTriangle(*this, getTriangle(), getReverse(), getExclusive(), getFrom(), rows, "C3");
}

/// Verifies that the vector `parts` is some times as long as `whole`.
static LogicalResult verifyParts(Operation *op, Type parts, int64_t whole) {
  int64_t length = cast<VectorType>(parts).getDimSize(0);
  if (length % whole == 0)
    return success();
  return op->emitOpError() << "there must be whole parts of " << whole << " elements (C1), but "
                           << length << " elements are none";
}

LogicalResult PartialSumOp::verify() {
  return verifyParts(*this, getType(), getTile().getType().getDimSize(1 - getDim()));
}

LogicalResult AddPartsOp::verify() {
  return verifyParts(*this, getParts().getType(), getType().getDimSize(0));
}
