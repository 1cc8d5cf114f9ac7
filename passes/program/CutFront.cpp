//===- CutFront.cpp - a chunk's front as a kernel of its own ---------------===//
//
// A tensor of rows has none past a sequence's end, where a load gives zeros. So a tile goes through
// one only if its rows there are zero. A vector goes through a slot for each chunk, and so does
// whether a chunk's gates are in range: as zeros if they are, otherwise as infinities. Rows are
// scaled in any case. Where gates are out of range nothing uses them, for the state's side then
// takes its exact path.
//
//===----------------------------------------------------------------------===//
#include "passes/program/CutFront.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/program/FrontOps.h"
#include "passes/program/SimplifyProgram.h"
#include "passes/program/SliceColumns.h"
#include "passes/program/StateDivider.h"
#include "passes/scan/ScanProperties.h"
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class FrontCutter : public StateDivider {
public:
  FrontCutter(ProgramOp program, scf::ForOp loop, Front kind, SegmentsAttr segments)
      : StateDivider(program, loop), kind(kind), segments(segments), ofSlice(opsOfSlice(program)) {
    hoistRowsAlone(loop, ofSlice);
  }

private:
  bool isOfState(Operation *op) override {
    bool isProduct = isa<DotOp, SolveOp, tile::SumOp>(op);
    return ofSlice.contains(op) || isa<LoadSlotOp, SlotRowsOp>(op) ||
           (kind == Front::scaledRows && isProduct);
  }
  bool isCostly(Operation *op) override {
    return kind == Front::products
               ? isa<DotOp, SolveOp, tile::SumOp>(op)
               : isa<CumsumOp, math::ExpOp>(op) && isMatrix(op->getResult(0).getType());
  }
  /// Spread vectors are handed over as vectors, exponentials as exponents, so that those of two
  /// chunks can be added (ejk-defer-state-scaling), and what a number scales as it was.
  bool isHandedOver(Value value) override {
    Operation *def = value.getDefiningOp();
    return isWorth(def) &&
           (isa<RangeGuardOp>(def) ||
            (isa<VectorType>(value.getType()) && !isa<BroadcastOp>(def) &&
             (isMatrix(value.getType()) || !(isa<math::ExpOp>(def) || isScaled(def)))));
  }
  static bool isScaled(Operation *op) {
    return isa<arith::MulFOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
             return matchPattern(operand, m_Constant());
           });
  }
  bool goesByRows(Value value) override { return isMatrix(value.getType()); }
  /// Rows in 16 bits take no more memory than what they are made of.
  bool suits() override {
    auto elementsOf = [](Value value) {
      return cast<VectorType>(value.getType()).getElementType();
    };
    auto mayBeInSlot = [&](Value value) {
      return !isa<VectorType>(value.getType()) || isa<FloatType>(elementsOf(value));
    };
    return isWithoutPlaces(loop, ops) && llvm::all_of(bySlot, mayBeInSlot) &&
           llvm::all_of(byRows, [&](Value tile) {
             return isZeroPastEnd(tile) && elementsOf(tile).getIntOrFloatBitWidth() == 16;
           });
  }

  VectorType typeOfPart(Value value) override {
    auto type = dyn_cast<VectorType>(value.getType());
    return type ? type : VectorType::get({kElementsOfGuard * slicesOfFront()}, b.getF32Type());
  }
  Value partOf(Value value, Value made) override {
    if (isa<VectorType>(value.getType()))
      return made;
    auto type = VectorType::get({kElementsOfGuard}, b.getF32Type());
    auto all = [&](float number) -> Value {
      return arith::ConstantOp::create(b, value.getLoc(), DenseElementsAttr::get(type, number));
    };
    return arith::SelectOp::create(b, value.getLoc(), made, all(0),
                                   all(std::numeric_limits<float>::infinity()));
  }
  Value fromPart(Value value, Value part) override {
    auto check = value.getDefiningOp<RangeGuardOp>();
    return check ? RangeGuardOp::create(b, value.getLoc(), check.getBound(), part).getResult()
                 : part;
  }

  SegmentsAttr segmentsOfFront() override { return segments; }
  int64_t slicesOfFront() override {
    int64_t columns = columnsTreatedAlike(loop, ops);
    return columns % kColumnsOfSlice ? 1 : std::max<int64_t>(columns / kColumnsOfSlice, 1);
  }

  /// Vectors are used late, some of them after a branch, and are copied ahead as rows are.
  bool takesEarly(Value value) override { return !isMatrix(value.getType()); }

  void cloneBody(IRMapping &map) override {
    cloneInOneOrder(b, loop, ops, first, program.getChunk(), map);
  }

  void finish(ProgramsByState &parts) override {
    if (parts.front.getSlices() > 1)
      sliceColumns(parts.front);
    simplifyProgram(parts.front);
    loadOnExactPaths(loopOverChunks(parts.state));
    simplifyProgram(parts.state);
  }

  Front kind;
  SegmentsAttr segments;
  llvm::DenseSet<Operation *> ofSlice;
};
} // namespace

std::optional<ProgramsByState> ejk::cutFront(ProgramOp program, Front kind, SegmentsAttr segments) {
  // Operands in two terms are made of what is rounded to the first.
  if (program.getCorrects() || isInTwoTerms(program))
    return {};
  // Vectors go through slots of a chunk each, and a front has the chunks of whole sequences.
  bool hasOtherSlots = program.getSaveEvery() && *program.getSaveEvery() != program.getChunk();
  if (hasOtherSlots || program.getTurns() || program.getTrailing() || !program.getInto().empty() ||
      (program.getSegments() && program.getSegments()->getOnly()))
    return {};
  if (!loopOverChunks(program) || !program.getBlock().getOps<MakeRingOp>().empty())
    return {};
  auto copy = cast<ProgramOp>(OpBuilder(program).clone(*program));
  std::optional<ProgramsByState> parts =
      FrontCutter(copy, loopOverChunks(copy), kind, segments).run();
  copy.erase();
  return parts;
}
