//===- GroupedStates.cpp - states that a program's kernel shares by groups ----===//
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/Views.h"

using namespace mlir;
using namespace ejk;

RepeatHeadsOp ejk::startOfGroup(tile::ProgramOp program, Value initial) {
  auto repeat = initial.getDefiningOp<RepeatHeadsOp>();
  bool isInitial = llvm::is_contained(program.getInitialStates(), initial);
  return repeat && isInitial && initial.hasOneUse() && !repeat.getFirstOnly() ? repeat
                                                                              : RepeatHeadsOp();
}

FirstHeadsOp ejk::endOfGroup(tile::ProgramOp program, Value final) {
  auto first = final.hasOneUse() ? dyn_cast<FirstHeadsOp>(*final.user_begin()) : FirstHeadsOp();
  if (!first || first.getStates() != final || !llvm::is_contained(program.getFinalStates(), final))
    return {};
  // Another program has the states of the heads that this one skips.
  if (program.getSkipped())
    return {};
  bool mayShare = llvm::any_of(program.getInitialStates(), [&](Value initial) {
    RepeatHeadsOp start = startOfGroup(program, initial);
    return start && isa<BlockArgument>(sameMemory(start.getStates()));
  });
  return mayShare ? FirstHeadsOp() : first;
}

bool ejk::isDoneByProgram(Operation *op) {
  if (auto repeat = dyn_cast<RepeatHeadsOp>(op)) {
    Value result = repeat.getResult();
    auto program =
        result.hasOneUse() ? dyn_cast<tile::ProgramOp>(*result.user_begin()) : tile::ProgramOp();
    return program && startOfGroup(program, result);
  }
  Value states = cast<FirstHeadsOp>(op).getStates();
  auto program = states.getDefiningOp<tile::ProgramOp>();
  return program && endOfGroup(program, states);
}

bool ejk::hasGroupedStates(Operation *op) {
  auto program = dyn_cast<tile::ProgramOp>(op);
  return program && (llvm::any_of(program.getInitialStates(),
                                  [&](Value v) { return bool(startOfGroup(program, v)); }) ||
                     llvm::any_of(program.getFinalStates(),
                                  [&](Value v) { return bool(endOfGroup(program, v)); }));
}
