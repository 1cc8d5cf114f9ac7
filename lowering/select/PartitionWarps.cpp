//===- PartitionWarps.cpp - the front of a chunk in warps of its own -------===//
//
// Divides a program by what depends on its state (passes/program/SplitByState.h), lays out and
// pipelines both halves as programs, and joins them again as two partitions of one (JoinPartitions.h):
//
//   front   takes rows, computes what a chunk has of its rows alone, and puts it into the ring X
//   state   copies rows, takes them and X, and does the rest
//
// Both take the rows that both need from the same rings. Their copies are issued by the state's warps,
// which are the ones that are behind.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/select/JoinPartitions.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "passes/program/SplitByState.h"

namespace ejk {
#define GEN_PASS_DEF_PARTITIONWARPS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static bool contains(Operation *op, llvm::function_ref<bool(Operation *)> isSought) {
  return op
      ->walk([&](Operation *inner) {
        return isSought(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether there is a branch that does more than store what it is given.
static bool hasBranches(ProgramOp program) {
  return contains(program, [](Operation *op) {
    return Branch::is(op) &&
           (op->getNumResults() > 0 || contains(op, llvm::IsaPred<DotOp, BarrierOp, LoadOp>));
  });
}

namespace {
struct PartitionWarpsPass : ejk::impl::PartitionWarpsBase<PartitionWarpsPass> {
  using PartitionWarpsBase::PartitionWarpsBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    if (!target->hasWgmma || !target->hasSetMaxRegisters)
      return;
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (!program->hasAttr(kWarpsAttr) && invertsSystem(program))
        programs.push_back(program);
    });
    for (ProgramOp program : programs) {
      ofFront = ofState = 0;
      StringRef why = hasBranches(program) ? "it has branches" : "four warps hold its tiles";
      FailureOr<ProgramOp> made = failure();
      if (!hasBranches(program) && cost::partitionsPay(largestMatrix(program)))
        made = partition(program, *target, why);
      auto function = program->getParentOfType<func::FuncOp>();
      cost::Decision(program.getLoc(), function ? function.getName() : StringRef(), "partitions",
                     succeeded(made) ? "front and state" : "none: " + why.str())
          .from("registers of the front's tiles", ofFront)
          .from("registers of the state's tiles", ofState);
      if (failed(made)) {
        ++numDeclined;
        continue;
      }
      program->replaceAllUsesWith(*made);
      program.erase();
      ++numPartitioned;
    }
  }

private:
  static bool invertsSystem(ProgramOp program) {
    return contains(program, llvm::IsaPred<InvertDiagonalOp>);
  }

  /// The front keeps its order otherwise: it has time, and few registers.
  LogicalResult layOut(ProgramOp program, unsigned warps, bool isFront) {
    OpPassManager passes(ProgramOp::getOperationName());
    AssignTileLayoutsOptions layouts;
    layouts.arch = arch;
    layouts.warps = warps;
    layouts.vectorsFromShared = !isFront;
    passes.addPass(createAssignTileLayouts(layouts));
    if (!isFront)
      passes.addPass(createScheduleMatmuls());
    if (failed(runPipeline(passes, program)))
      return failure();
    if (isFront) {
      shortenTileRanges(program);
      sinkToUses(*loopOverChunks(program).getBody());
      issueMatmulsEarly(*loopOverChunks(program).getBody());
    }
    return success();
  }

  /// With two stages of computed tiles, or one where shared memory is short.
  FailureOr<ProgramOp> partition(ProgramOp program, const Target &target, StringRef &why) {
    for (unsigned stages : {2, 1}) {
      std::optional<ProgramsByState> parts = splitByState(program);
      if (!parts) {
        why = "its chunks have no matmuls of their rows alone";
        return failure();
      }
      FailureOr<ProgramOp> made = failure();
      std::optional<cost::PartitionRegisters> registers;
      if (failed(layOut(parts->front, cost::kFrontWarps, /*isFront=*/true)) ||
          failed(layOut(parts->state, cost::kManyWarps, /*isFront=*/false)))
        why = "a side cannot be laid out";
      else if (ofFront = registersOfLiveTiles(parts->front),
               ofState = registersOfLiveTiles(parts->state);
               !(registers = cost::partitionRegisters(ofFront, ofState)))
        why = "threads would lack registers";
      else
        made = joinPartitions(program, *parts, *registers, stages, why);
      parts->state.erase();
      parts->front.erase();
      if (failed(made))
        return failure();
      OwningOpRef<ProgramOp> trial = cast<ProgramOp>((*made)->clone());
      OpBuilder(*made).insert(*trial);
      unsigned bytes = sharedMemoryNeed(*trial, /*doubleBuffered=*/true);
      trial.release().erase();
      if (bytes <= target.sharedBytesPerBlock)
        return made;
      made->erase();
      why = "both sides do not fit into shared memory";
    }
    return failure();
  }

  /// Of the halves that were laid out last.
  int64_t ofFront = 0, ofState = 0;
};
} // namespace
