//===- SimplifyProgram.cpp - dead code and common subexpressions -----------===//
#include "passes/program/SimplifyProgram.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;

/// Makes a loop yield its argument unchanged if only the loop itself uses the carried value.
/// Canonicalisation then removes it.
static void dropUnusedCarried(scf::ForOp loop) {
  Block &body = *loop.getBody();
  Operation *yield = body.getTerminator();
  llvm::DenseSet<Value> live;
  SmallVector<Value> worklist;
  auto need = [&](Value value) {
    if (live.insert(value).second)
      worklist.push_back(value);
  };
  for (Operation &op : body.without_terminator())
    if (!isMemoryEffectFree(&op) && !hasSingleEffect<MemoryEffects::Read>(&op))
      op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), need); });
  for (auto [result, value] : llvm::zip(loop.getResults(), yield->getOperands()))
    if (!result.use_empty())
      need(value);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (Operation *def = value.getDefiningOp())
      def->walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), need); });
    else if (auto arg = cast<BlockArgument>(value); arg.getOwner() == &body && arg.getArgNumber())
      need(yield->getOperand(arg.getArgNumber() - 1));
  }
  for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs()))
    if (!live.contains(arg) && loop.getResult(i).use_empty())
      yield->setOperand(i, arg);
}

void ejk::simplifyProgram(tile::ProgramOp program) {
  RewritePatternSet patterns(program.getContext());
  tile::GuardedOp::getCanonicalizationPatterns(patterns, program.getContext());
  scf::IfOp::getCanonicalizationPatterns(patterns, program.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, program.getContext());
  FrozenRewritePatternSet frozen(std::move(patterns));
  for (unsigned round = 0; round < 2; ++round) {
    (void)applyPatternsGreedily(program, frozen);
    program.walk([](scf::ForOp loop) { dropUnusedCarried(loop); });
  }
  (void)applyPatternsGreedily(program, frozen);
  IRRewriter rewriter(program.getContext());
  DominanceInfo dominance(program);
  eliminateCommonSubExpressions(rewriter, dominance, program);
}
