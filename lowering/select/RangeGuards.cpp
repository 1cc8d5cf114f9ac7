//===- RangeGuards.cpp - what a program's range guards let pass -----------===//
#include "lowering/select/RangeGuards.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

bool ejk::takesOrdinaryGates(tile::ProgramOp program, bool isCpu) {
  int64_t rows = program.getChunk() * (isCpu ? 2 : 1);
  WalkResult result = program.walk([&](tile::RangeGuardOp check) {
    bool isWide = cost::takesOrdinaryGates(check.getBound().convertToDouble(), rows);
    return isWide ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

int64_t ejk::leastGuard(tile::ProgramOp program) {
  double least = 0;
  program.walk([&](tile::RangeGuardOp check) {
    double bound = check.getBound().convertToDouble();
    least = least ? std::min(least, bound) : bound;
  });
  return int64_t(least);
}
