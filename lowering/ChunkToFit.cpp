//===- ChunkToFit.cpp - block programs as large as a thread block holds ----===//
#include "lowering/Passes.h"
#include "lowering/StageTileLoads.h"
#include "lowering/TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Chunk.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {
#define GEN_PASS_DEF_CHUNKTOFIT
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// Rows below which a scan walks step by step, where they are known.
static constexpr int64_t kFewRows = 64;
static constexpr int64_t kChunks[] = {64, 32, 16};

namespace {
struct ChunkToFitPass : ejk::impl::ChunkToFitBase<ChunkToFitPass> {
  using ChunkToFitBase::ChunkToFitBase;

  void runOnOperation() override {
    if (schedule == Schedule::step)
      return;
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ArrayRef<ScanOp> group : findGroups(scans))
      if (failed(handle(group)))
        return signalPassFailure();
  }

  /// Scans of which one reads the states another saves belong together: what cancels
  /// between them does so when both round alike.
  static SmallVector<SmallVector<ScanOp>> findGroups(ArrayRef<ScanOp> scans) {
    llvm::EquivalenceClasses<Operation *> together;
    for (ScanOp scan : scans) {
      together.insert(scan);
      for (Value state : scan.getSavedStates())
        if (auto source = state.getDefiningOp<ScanOp>())
          together.unionSets(scan, source);
    }
    llvm::MapVector<Operation *, SmallVector<ScanOp>> groups;
    for (ScanOp scan : scans)
      groups[together.getLeaderValue(scan)].push_back(scan);
    return llvm::to_vector(llvm::make_second_range(groups));
  }

  static int64_t rowsOf(ScanOp scan) {
    return cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
  }

  bool isWanted(ScanOp scan) {
    int64_t rows = rowsOf(scan);
    bool few = !ShapedType::isDynamic(rows) && rows < kFewRows;
    return rows != 1 && (schedule == Schedule::chunk || !few);
  }

  LogicalResult handle(ArrayRef<ScanOp> group) {
    if (!llvm::all_of(group, [&](ScanOp scan) { return isWanted(scan); }))
      return success();
    SmallVector<tile::ProgramOp> programs;
    for (ScanOp scan : group) {
      FailureOr<tile::ProgramOp> program = makeProgram(scan);
      if (failed(program))
        return failure();
      if (!*program)
        break;
      programs.push_back(*program);
    }
    if (programs.size() < group.size()) {
      for (ScanOp scan : group)
        if (scan != group[programs.size()])
          scan.emitRemark("not chunked: a scan that it shares saved states with is not");
      for (tile::ProgramOp program : programs)
        program.erase();
      numDeclined += group.size();
      return success();
    }
    for (auto [i, program] : llvm::enumerate(programs)) {
      ScanOp scan = group[i];
      numShorter += program.getChunk() < kChunks[0];
      bool mayBeOne = ShapedType::isDynamic(rowsOf(scan)) && !scan.getCuSeqlens();
      replaceScan(scan, program, /*forSeveralRows=*/mayBeOne);
      ++numChunked;
    }
    return success();
  }

  /// The program of the longest chunks that fit; null, after a remark, where there is none.
  FailureOr<tile::ProgramOp> makeProgram(ScanOp scan) {
    for (int64_t chunk : kChunks) {
      FailureOr<tile::ProgramOp> program = chunkScan(scan, {chunk});
      if (failed(program))
        return tile::ProgramOp();
      FailureOr<bool> fits = this->fits(*program);
      if (failed(fits))
        return failure();
      if (*fits)
        return *program;
      program->erase();
      if (scan.getSaveEvery())
        break; // it has no choice
    }
    scan.emitRemark("not chunked: its tiles do not fit into a thread block of ") << arch;
    return tile::ProgramOp();
  }

  FailureOr<bool> fits(tile::ProgramOp program) {
    // Of a copy, for what comes later expects it as it is.
    OpBuilder b(program);
    auto copy = cast<tile::ProgramOp>(b.clone(*program));
    OpPassManager layOut(tile::ProgramOp::getOperationName());
    buildTileLayoutPipeline(layOut, arch);
    LogicalResult result = runPipeline(layOut, copy);
    if (succeeded(result))
      stageTileLoads(copy, /*stages=*/1);
    bool fits = succeeded(result) && sharedMemoryNeed(copy) <= sharedMemoryLimit(arch);
    copy.erase();
    if (failed(result))
      return failure();
    return fits;
  }
};
} // namespace
