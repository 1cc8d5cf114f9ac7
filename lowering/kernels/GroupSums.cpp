//===- GroupSums.cpp - outputs that a program's kernel sums over groups ---===//
#include "lowering/kernels/GroupSums.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

/// The dimension of heads in rows, [B,T,H] or [B,T,H,C].
static constexpr int64_t kHeadDim = 2;

bool ejk::canSumInTurn(SumHeadsOp sum) {
  Value terms = sum.getTensor();
  auto program = terms.getDefiningOp<tile::ProgramOp>();
  // Slices of one head would each have to add a part, and blocks of a segment's last rows are not
  // all there.
  return program && terms.hasOneUse() && int64_t(sum.getDim()) == kHeadDim &&
         llvm::is_contained(program.getOutputs(), terms) && program.getSlices() == 1 &&
         !program.getTrailing() && !program.getSkipped();
}

SumHeadsOp ejk::sumOfOutput(tile::ProgramOp program, Value output) {
  auto sum = program.getTurns() && output.hasOneUse() ? dyn_cast<SumHeadsOp>(*output.user_begin())
                                                      : SumHeadsOp();
  return sum && sum.getTensor() == output && canSumInTurn(sum) &&
                 getElementTypeOrSelf(sum.getType()).isF32()
             ? sum
             : SumHeadsOp();
}

bool ejk::isSummed(tile::StoreOp store) {
  auto program = store->getParentOfType<tile::ProgramOp>();
  for (auto [output, rows] : llvm::zip(program.getOutputs(), program.getOutputArgs()))
    if (rows == store.getRows())
      return bool(sumOfOutput(program, output));
  return false;
}

bool ejk::isSummedByProgram(SumHeadsOp sum) {
  auto program = sum.getTensor().getDefiningOp<tile::ProgramOp>();
  return program && sumOfOutput(program, sum.getTensor());
}
