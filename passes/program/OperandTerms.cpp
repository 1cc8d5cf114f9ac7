//===- OperandTerms.cpp - matmul operands in two terms --------------------===//
#include "passes/program/OperandTerms.h"
#include "passes/Rounding.h"
#include "passes/chunk/Chunk.h"
#include "passes/scan/ScanProperties.h"
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

Matmuls ejk::matmulsToSplit(ProgramOp program, int64_t twoTermStates) {
  int64_t narrower = std::numeric_limits<int64_t>::max(), wider = 0;
  bool hasRows = false, hasGatesOfHeads = false, hasGatesOfChannels = false;
  for (Type type : program.getBlock().getArgumentTypes()) {
    auto rows = dyn_cast<RowsType>(type);
    auto slots = dyn_cast<SlotsType>(type);
    Type element = rows ? rows.getRow() : slots ? slots.getSlot() : type;
    hasGatesOfHeads |= isa<FloatType>(element);
    auto vector = dyn_cast<VectorType>(element);
    if (!vector)
      continue;
    hasRows |= bool(rows);
    for (int64_t size : vector.getShape()) {
      narrower = std::min(narrower, size);
      wider = std::max(wider, size);
    }
  }
  // They alone have a range to guard.
  program.walk([&](RangeGuardOp) { hasGatesOfChannels = true; });
  if (hasRows && program.getCorrects() && (isInTwoTerms(program) || narrower <= kFewChannels))
    return Matmuls::all;
  if (hasRows && isInTwoTerms(program))
    return wider <= kFewChannels ? Matmuls::all : Matmuls::ofSums;
  if (hasRows && hasGatesOfHeads && !hasGatesOfChannels && narrower > kFewChannels &&
      wider <= twoTermStates)
    return Matmuls::ofCarriedStates;
  if (!hasRows || narrower > kFewChannels ||
      wider > mostBesideFew(hasGatesOfHeads, hasGatesOfChannels))
    return Matmuls::none;
  return wider <= kFewChannels ? Matmuls::all : Matmuls::ofSums;
}

bool ejk::isRest(Operation *op, arith::ExtFOp wide, arith::TruncFOp round) {
  auto rest = dyn_cast<arith::SubFOp>(op);
  return rest && rest.getLhs() == round.getIn() && rest.getRhs() == wide &&
         llvm::all_of(rest->getUsers(), llvm::IsaPred<arith::TruncFOp>);
}

Value ejk::firstTermOf(Value operand) {
  auto second = operand.getDefiningOp<arith::TruncFOp>();
  auto rest = second ? second.getIn().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  auto wide = rest ? rest.getRhs().getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
  auto round = wide ? wide.getIn().getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
  return round && isRest(rest, wide, round) ? wide.getIn() : Value();
}
