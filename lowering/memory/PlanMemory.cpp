//===- PlanMemory.cpp - places, barriers, fences and waits ----------------===//
#include "lowering/memory/PlanMemory.h"
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/MemoryPlanner.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {
#define GEN_PASS_DEF_PLANMEMORY
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// A planned copy of a program, and the bytes of shared memory that it needs.
struct Plan {
  OwningOpRef<ProgramOp> program;
  unsigned bytes = 0;
};

/// Plans a program with some memory to spare.
class Planning {
public:
  Planning(ProgramOp program, unsigned freeBytes, bool doubleBuffered)
      : program(program), freeBytes(freeBytes), doubleBuffered(doubleBuffered) {}

  /// Plans until each loop has only the barriers that it needs. If that fails and TMA stores are in
  /// use, plans with a barrier at each loop head, until loops know their outstanding bulk stores.
  /// If that fails, too, the loops wait for all bulk stores at the end of each iteration.
  Plan run() {
    constexpr unsigned kRounds = 3;
    LoopEnds ends;
    Plan withBarriers = plan(ends), last;
    if (ends.found.empty())
      return withBarriers;
    bool done = false;
    // Each round knows what the previous plan found.
    auto planRounds = [&](bool areInPlace, bool haveBarriers) {
      for (unsigned round = 0; round < kRounds && !done; ++round) {
        LoopEnds next;
        next.areInPlace = areInPlace;
        next.haveBarriers = haveBarriers;
        next.known = std::move(ends.found);
        if (haveBarriers)
          for (auto &[loop, touched] : next.known)
            touched = touched.onlyBulkStores();
        ends = std::move(next);
        last = plan(ends);
        done = !ends.wrong;
      }
    };
    auto hasBulkStores = [&] {
      return llvm::any_of(ends.found, [](auto &loop) { return !loop.second.bulkStores.empty(); });
    };
    planRounds(/*areInPlace=*/false, /*haveBarriers=*/false);
    // Avoiding the ranges of the previous iteration may move the tiles in every round, so that it
    // never converges. Kernels with TMA stores then stop avoiding them, because a barrier at the
    // loop head would wait for the stores.
    if (hasBulkStores())
      planRounds(/*areInPlace=*/true, /*haveBarriers=*/false);
    if (hasBulkStores())
      planRounds(/*areInPlace=*/false, /*haveBarriers=*/true);
    return done ? std::move(last) : std::move(withBarriers);
  }

private:
  Plan plan(LoopEnds &ends) {
    Plan plan{cast<ProgramOp>(program->clone())};
    auto isUsed = [&](unsigned result) { return !program->getResult(result).use_empty(); };
    plan.bytes = MemoryPlanner(*plan.program, isUsed, freeBytes, doubleBuffered, ends).run();
    return plan;
  }

  ProgramOp program;
  unsigned freeBytes;
  bool doubleBuffered;
};
} // namespace

unsigned ejk::sharedMemoryNeed(ProgramOp program, bool doubleBuffered) {
  LoopEnds ends;
  auto isUsed = [&](unsigned result) { return !program->getResult(result).use_empty(); };
  return MemoryPlanner(program, isUsed, /*freeBytes=*/0, doubleBuffered, ends).run();
}

bool ejk::holdsPlans(ModuleOp module) {
  return module
      ->walk([](ProgramOp program) {
        return program->hasAttr(kSharedBytesAttr) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether a loop carries a swizzled tile.
static bool carriesMatmulOperands(ProgramOp program) {
  return program
      ->walk([](scf::ForOp loop) {
        return llvm::any_of(loop.getInits(),
                            [](Value init) {
                              return isa<VectorType>(init.getType()) && isSwizzled(layoutOf(init));
                            })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult ejk::planMemory(ProgramOp program, const Target &target, StringRef kernel) {
  unsigned needed = 0, sharedLimit = target.sharedBytesPerBlock;
  struct Attempt {
    unsigned limit, freeBytes;
    bool doubleBuffered;
  };
  SmallVector<Attempt> attempts;
  // A multiprocessor's second block is worth more than what a block makes of its memory.
  unsigned beside =
      cost::sharedBytesOfBlock(target, program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt(),
                               program->hasAttr(kWarpgroupsAttr));
  SmallVector<unsigned> limits = {beside};
  if (beside != sharedLimit)
    limits.push_back(sharedLimit);
  for (unsigned limit : limits) {
    if (carriesMatmulOperands(program))
      attempts.push_back({limit, limit, true});
    // Memory spent to save barriers early in the program may be missing later, so retry with less.
    for (unsigned freeBytes : {limit, limit - limit / 8, 0u})
      attempts.push_back({limit, freeBytes, false});
  }
  for (auto [limit, freeBytes, doubleBuffered] : attempts) {
    Plan plan = Planning(program, freeBytes, doubleBuffered).run();
    needed = plan.bytes;
    if (needed > limit)
      continue;
    cost::Decision(program.getLoc(), kernel, "buffers",
                   doubleBuffered ? "double buffers of operands that loops carry"
                   : freeBytes    ? "spare memory saves barriers"
                                  : "least memory")
        .from("bytes used", needed)
        .from("bytes of a block", limit);
    OpBuilder b(program);
    ProgramOp planned = plan.program.release();
    b.insert(planned);
    planned->setAttr(kSharedBytesAttr, b.getI64IntegerAttr(needed));
    program->replaceAllUsesWith(planned);
    program.erase();
    return success();
  }
  return program.emitError() << "needs " << needed << " bytes of shared memory a block, more than "
                             << "the " << sharedLimit << " of this architecture; make its chunks "
                             << "shorter, or divide the state into more slices";
}

namespace {
struct PlanMemoryPass : ejk::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr) && !program->hasAttr(kSharedBytesAttr))
        programs.push_back(program);
    });
    llvm::MapVector<func::FuncOp, unsigned> numBlocks;
    for (ProgramOp program : programs) {
      auto function = program->getParentOfType<func::FuncOp>();
      // The name that the program's kernel will have.
      std::string name = (function.getName() + "_blocks" + Twine(numBlocks[function]++)).str();
      if (failed(checkLaidOut(program)) ||
          failed(planMemory(program, *target, name)))
        return signalPassFailure();
      ++numPlanned;
    }
    getOperation()->walk([&](BarrierOp) { ++numBarriers; });
  }
};
} // namespace
