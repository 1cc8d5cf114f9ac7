//===- TakeTurns.cpp - where a block waits for the head before it ---------===//
//
// An op of a block program, or of its loop over chunks, that stores rows which heads sum is a
// turn's. Those of one block of ops, from the first to the last, are one turn: heads of a group
// take equally many, whatever branches they take inside.
//
//===----------------------------------------------------------------------===//
#include "lowering/Passes.h"
#include "lowering/kernels/GroupSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace ejk {
#define GEN_PASS_DEF_TAKETURNS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class Turns {
public:
  explicit Turns(ProgramOp program) : program(program), b(program.getContext()) {}

  void run() {
    b.setInsertionPointToStart(&program.getBlock());
    taken = index(0);
    takeInBlock(program.getBlock());
  }

private:
  Value index(int64_t number) {
    return arith::ConstantIndexOp::create(b, program.getLoc(), number);
  }

  static bool storesSummed(Operation *op) {
    return op
        ->walk([](StoreOp store) {
          return isSummed(store) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// The block of a program or of a partition: loops over chunks have a turn in each iteration.
  void takeInBlock(Block &block) {
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      if (storesSummed(&op))
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (isa<WarpSpecializeOp>(op)) {
        for (PartitionOp partition :
             cast<WarpSpecializeOp>(op).getBody().front().getOps<PartitionOp>())
          if (storesSummed(partition))
            takeInBlock(partition.getBody().front());
        continue;
      }
      if (auto loop = dyn_cast<scf::ForOp>(op); loop && matchPattern(loop.getStep(), m_One())) {
        takeInLoop(loop);
        continue;
      }
      b.setInsertionPoint(op);
      AwaitTurnOp::create(b, op->getLoc(), taken);
      b.setInsertionPointAfter(op);
      taken = arith::AddIOp::create(b, op->getLoc(), taken, index(1));
      pass(op->getLoc());
    }
  }

  /// What was stored is passed on after a barrier that is there anyway, if the loop has one before
  /// it stores: in the next iteration, and after the last.
  void takeInLoop(scf::ForOp loop) {
    Location loc = loop.getLoc();
    Operation *first = nullptr, *last = nullptr;
    for (Operation &op : loop.getBody()->without_terminator())
      if (storesSummed(&op)) {
        first = first ? first : &op;
        last = &op;
      }
    BarrierOp barrier;
    for (Operation *op = &loop.getBody()->front(); op != first && !barrier; op = op->getNextNode())
      barrier = dyn_cast<BarrierOp>(op);
    b.setInsertionPointToStart(loop.getBody());
    Value done = numberOf(loop);
    if (barrier) {
      b.setInsertionPointAfter(barrier);
      PassTurnOp::create(b, loc, done);
    }
    b.setInsertionPoint(beforeWait(first));
    AwaitTurnOp::create(b, loc, done);
    if (!barrier) {
      b.setInsertionPointAfter(last);
      Value next = arith::AddIOp::create(b, loc, done, index(1));
      BarrierOp::create(b, loc);
      PassTurnOp::create(b, loc, next);
    }
    b.setInsertionPointAfter(loop);
    Value count = arith::SubIOp::create(b, loc, loop.getUpperBound(), loop.getLowerBound());
    taken = arith::AddIOp::create(b, loc, taken, count);
    if (barrier)
      pass(loc);
  }

  /// The wait for the matmuls whose results `store` stores, beside which a turn is awaited: reading its count takes
  /// as long. `store` where there is none.
  static Operation *beforeWait(Operation *store) {
    for (Operation *op = store->getPrevNode(); op && !isa<BarrierOp>(op); op = op->getPrevNode()) {
      if (isa<WaitMatmulsOp>(op))
        return op;
      if (!isPure(op))
        break;
    }
    return store;
  }

  /// How many turns were taken before an iteration of `loop`, whose step is 1.
  Value numberOf(scf::ForOp loop) {
    Value passed =
        arith::SubIOp::create(b, loop.getLoc(), loop.getInductionVar(), loop.getLowerBound());
    return arith::AddIOp::create(b, loop.getLoc(), taken, passed);
  }

  void pass(Location loc) {
    BarrierOp::create(b, loc);
    PassTurnOp::create(b, loc, taken);
  }

  ProgramOp program;
  OpBuilder b;
  Value taken; // turns before the current op
};

struct TakeTurnsPass : ejk::impl::TakeTurnsBase<TakeTurnsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (!program.getTurns())
        return;
      Turns(program).run();
      ++numPrograms;
    });
  }
};
} // namespace
