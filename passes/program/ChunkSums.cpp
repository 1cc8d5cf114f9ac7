//===- ChunkSums.cpp - what a program sums up over its chunks -------------===//
#include "passes/program/ChunkSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

std::optional<ChunkSum> ChunkSum::of(ProgramOp program, scf::ForOp loop, unsigned number) {
  Value carried = loop.getRegionIterArg(number), result = loop.getResult(number);
  auto add = loop.getYieldedValues()[number].getDefiningOp<arith::AddFOp>();
  bool isSum = matchPattern(loop.getInits()[number], m_AnyZeroFloat()) && add && add->hasOneUse() &&
               carried.hasOneUse() && *carried.user_begin() == add && result.hasOneUse();
  auto store = isSum ? dyn_cast<StoreSlotOp>(*result.user_begin()) : StoreSlotOp();
  if (!store || !llvm::is_contained(program.getFinalArgs(), store.getSlots()))
    return std::nullopt;
  return ChunkSum{number, store};
}

unsigned ChunkSum::finalState(ProgramOp program) const {
  ValueRange finals = program.getFinalArgs();
  return llvm::find(finals, StoreSlotOp(store).getSlots()) - finals.begin();
}

void ChunkSum::removeFrom(scf::ForOp loop) const {
  (*loop.getResult(number).user_begin())->erase();
  loop.getBody()->getTerminator()->setOperand(number, loop.getRegionIterArg(number));
}

scf::ForOp ejk::carrySums(ArrayRef<ChunkSum> sums, scf::ForOp from, scf::ForOp loop,
                          IRMapping &mapping) {
  if (sums.empty())
    return loop;
  SmallVector<Value> zeros = llvm::map_to_vector(
      sums, [&](const ChunkSum &sum) { return mapping.lookup(from.getInits()[sum.number]); });
  IRRewriter rewriter(loop);
  auto handOn = [](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
    return SmallVector<Value>(args.begin(), args.end());
  };
  loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
      rewriter, zeros, /*replaceInitOperandUsesInLoop=*/false, handOn));
  auto carried = loop.getRegionIterArgs().take_back(sums.size());
  for (auto [sum, arg] : llvm::zip(sums, carried))
    mapping.map(from.getRegionIterArg(sum.number), arg);
  return loop;
}

void ejk::finishSums(ArrayRef<ChunkSum> sums, scf::ForOp from, ProgramOp program, scf::ForOp loop,
                     IRMapping &mapping) {
  unsigned carried = loop.getNumResults() - sums.size();
  ValueRange finals = program.getFinalArgs().take_back(sums.size());
  OpBuilder after(program.getBlock().getTerminator());
  for (auto [i, sum] : llvm::enumerate(sums)) {
    loop.getBody()->getTerminator()->setOperand(
        carried + i, mapping.lookup(from.getYieldedValues()[sum.number]));
    mapping.map(from.getResult(sum.number), loop.getResult(carried + i));
    mapping.map(StoreSlotOp(sum.store).getSlots(), finals[i]);
    after.clone(*StoreSlotOp(sum.store), mapping);
  }
}
