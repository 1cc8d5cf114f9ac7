//===- FallBackToShortChunks.cpp - strong gates in shorter chunks ----------===//
//
// A chunk of 64 rows with gates per channel stays on its fast path while half of its rows sum up to no
// more than 64 nats: 2 a row. Its chunks of 16 rows stay there with 8 a row. So where the guard of a
// chunk fails, its rows are computed in shorter chunks, each of which has a guard and an exact path of
// its own:
//
//   %s2 = tile.guarded %inRange fast {            %s2 = tile.guarded %inRange fast {
//     … a chunk of 64 rows                          … a chunk of 64 rows, and its stores
//   } exact {                                     } exact {
//     … step by step                                scf.for … {
//   }                                                 … a chunk of 16 rows, with its loads and stores
//   … stores                                        }
//                                                 }
//
//===----------------------------------------------------------------------===//
#include "passes/program/FallBackToShortChunks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/program/SimplifyProgram.h"
#include "passes/program/SplitByState.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The guard of few rows has a vector; that of gates has matrices of their sums.
static bool looksAtGates(RangeGuardOp guard) {
  return llvm::any_of(guard.getTiles(), [](Value tile) {
    return cast<VectorType>(tile.getType()).getRank() == 2;
  });
}

bool ejk::guardsGates(ProgramOp program) {
  return program
      ->walk([](RangeGuardOp guard) {
        return looksAtGates(guard) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The one branch of a chunk; null if there are several.
static GuardedOp branchOf(scf::ForOp loop) {
  auto branches = loop.getBody()->getOps<GuardedOp>();
  return !branches.empty() && llvm::hasSingleElement(branches) ? *branches.begin() : GuardedOp();
}

/// Moves what follows `branch` in its chunk to its fast path. The branch then gives what the loop
/// carries on.
static GuardedOp endChunkOnFastPath(scf::ForOp loop, GuardedOp branch) {
  auto end = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  tile::YieldOp yield = branch.getFastYield();
  for (auto [result, value] : llvm::zip(branch.getResults(), yield.getValues()))
    result.replaceAllUsesWith(value);
  for (Operation *op = branch->getNextNode(); op != end;) {
    Operation *next = op->getNextNode();
    op->moveBefore(yield);
    op = next;
  }
  OpBuilder b(branch);
  Value isIn = arith::ConstantIntOp::create(b, branch.getLoc(), 1, 1);
  branch.getGuard().replaceUsesWithIf(
      isIn, [&](OpOperand &use) { return branch.getFast().isAncestor(use.getOwner()->getParentRegion()); });
  auto whole = GuardedOp::create(b, branch.getLoc(), end.getOperandTypes(), branch.getGuard());
  b.setInsertionPoint(yield);
  tile::YieldOp::create(b, yield.getLoc(), end.getOperands());
  yield.erase();
  whole.getFast().takeBody(branch.getFast());
  end->setOperands(whole.getResults());
  branch.erase();
  return whole;
}

namespace {
/// Clones chunks of `from` into another program of the same scan.
class ChunkCloner {
public:
  ChunkCloner(ProgramOp from, ProgramOp to) : from(from), loop(loopOverChunks(from)) {
    map.map(from.getBlock().getArguments(), to.getBlock().getArguments());
  }

  /// Clones what is before the loop and what its chunks need.
  void clonePrologue(OpBuilder &b) {
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> left = {loop.getUpperBound()};
    loop.getBody()->walk([&](Operation *op) { llvm::append_range(left, op->getOperands()); });
    while (!left.empty()) {
      Operation *def = left.pop_back_val().getDefiningOp();
      if (def && def->getBlock() == &from.getBlock() && needed.insert(def).second)
        def->walk([&](Operation *op) { llvm::append_range(left, op->getOperands()); });
    }
    for (Operation &op : from.getBlock())
      if (needed.contains(&op))
        b.clone(op, map);
  }
  Value count() { return map.lookupOrDefault(loop.getUpperBound()); }

  /// The chunks from number `first` to before `next`, with what they carry.
  scf::ForOp cloneChunks(OpBuilder &b, Value first, Value next, ValueRange carried) {
    Value one = arith::ConstantIndexOp::create(b, loop.getLoc(), 1);
    return scf::ForOp::create(
        b, loop.getLoc(), first, next, one, carried,
        [&](OpBuilder &inside, Location, Value number, ValueRange args) {
          map.map(loop.getInductionVar(), number);
          map.map(loop.getRegionIterArgs(), args);
          for (Operation &op : *loop.getBody())
            inside.clone(op, map);
        });
  }

private:
  ProgramOp from;
  scf::ForOp loop;
  IRMapping map;
};
} // namespace

bool ejk::fallBackToShortChunks(ProgramOp program, ProgramOp shorter, bool reverse) {
  scf::ForOp loop = loopOverChunks(program), ofShorter = loopOverChunks(shorter);
  GuardedOp branch = loop ? branchOf(loop) : GuardedOp();
  auto guard = branch ? branch.getGuard().getDefiningOp<RangeGuardOp>() : RangeGuardOp();
  if (!guard || !looksAtGates(guard) || !ofShorter ||
      loop.getResultTypes() != ofShorter.getResultTypes() ||
      program.getBlock().getArgumentTypes() != shorter.getBlock().getArgumentTypes() ||
      program.getSlices() != shorter.getSlices())
    return false;
  branch = endChunkOnFastPath(loop, branch);
  Location loc = branch.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(branch.getExactBlock());
  ChunkCloner cloner(shorter, program);
  cloner.clonePrologue(b);
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  auto times = [&](Value x, Value y) -> Value { return arith::MulIOp::create(b, loc, x, y); };
  auto minus = [&](Value x, Value y) -> Value { return arith::SubIOp::create(b, loc, x, y); };
  auto smaller = [&](Value x, Value y) -> Value { return arith::MinUIOp::create(b, loc, x, y); };
  Value ratio = index(program.getChunk() / shorter.getChunk()), count = cloner.count();
  Value first, next;
  if (reverse) {
    // Chunks are counted from the last on, which may have fewer rows.
    Value left = minus(loop.getUpperBound(), loop.getInductionVar());
    first = minus(count, smaller(times(left, ratio), count));
    next = minus(count, times(minus(left, index(1)), ratio));
  } else {
    first = times(loop.getInductionVar(), ratio);
    next = smaller(arith::AddIOp::create(b, loc, first, ratio), count);
  }
  scf::ForOp chunks = cloner.cloneChunks(b, first, next, loop.getRegionIterArgs());
  tile::YieldOp::create(b, loc, chunks.getResults());
  shorter.erase();
  simplifyProgram(program);
  return true;
}
