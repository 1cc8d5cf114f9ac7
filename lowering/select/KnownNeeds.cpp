//===- KnownNeeds.cpp - shared memory that like programs need -------------===//
#include "lowering/select/KnownNeeds.h"
#include "lowering/kernels/SameOps.h"

using namespace mlir;
using namespace ejk;

const KnownNeeds::Need *KnownNeeds::find(const Question &question) const {
  for (const Known &known : all)
    if (known.stages == question.stages && known.mayLoadLate == question.mayLoadLate &&
        known.inTwoTerms == question.inTwoTerms &&
        computeTheSame(*known.program, question.program, /*evenIfUnused=*/true))
      return &known.need;
  return nullptr;
}

void KnownNeeds::add(const Question &question, Need need) {
  tile::ProgramOp program = question.program;
  auto tensors = std::make_unique<Block>();
  IRMapping mapping;
  for (Value tensor : program->getOperands())
    if (!mapping.contains(tensor))
      mapping.map(tensor, tensors->addArgument(tensor.getType(), tensor.getLoc()));
  OwningOpRef<tile::ProgramOp> copy = cast<tile::ProgramOp>(program->clone(mapping));
  all.push_back({std::move(tensors), std::move(copy), question.stages, question.mayLoadLate,
                 question.inTwoTerms, need});
}
