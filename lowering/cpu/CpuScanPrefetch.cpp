//===- CpuScanPrefetch.cpp - the next chunk's rows, asked for in time -----===//
//
// A head's rows lie too far apart for the processor to see which come next, and a step takes each
// only once. So while a chunk of steps is computed, its column blocks ask for the rows of the next
// chunk, and for the saved state that is taken next. Requests are spread over the passes over the
// state: a core has room for some dozens that are outstanding, and stands still where there are
// more.
//
// A row of a tensor has some cache lines. Column block i of n asks for the lines i, i + n, ….
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

static constexpr int64_t kCacheLine = 64;

void CpuScanEmitter::prefetchLine(Value address, bool isWritten) {
  // Into the second cache: the first has no room for another chunk.
  b.make<LLVM::Prefetch>(address, b.getI32IntegerAttr(isWritten), b.getI32IntegerAttr(2),
                         b.getI32IntegerAttr(1));
}

static int64_t linesOf(RankedTensorType type) {
  int64_t channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
  return llvm::divideCeil(channels * CpuBuilder::elementBytes(type.getElementType()), kCacheLine);
}

/// The most cache lines that a step's row of a tensor has.
int64_t CpuScanEmitter::mostLines() const {
  int64_t most = 1;
  for (Value tensor : scan.getSequences())
    most = std::max(most, linesOf(cast<RankedTensorType>(tensor.getType())));
  for (Value tensor : scan.getOutputs())
    most = std::max(most, linesOf(cast<RankedTensorType>(tensor.getType())));
  return most;
}

/// How many of them each of `blocks` column blocks asks for.
Value CpuScanEmitter::shareOfLines(Value blocks) {
  return b.div(b.add(blocks, mostLines() - 1), blocks);
}

/// Asks for line `line` of each tensor's row of step `step`, or of the last step.
void CpuScanEmitter::prefetchStep(Value step, Value line) {
  Value memoryRow = rowOfStep(b.min(step, b.sub(length, 1)));
  int64_t most = mostLines();
  auto prefetch = [&](const Row &row, Value tensor, bool isWritten) {
    int64_t lines = linesOf(cast<RankedTensorType>(tensor.getType()));
    Value own = lines < most ? b.min(line, b.i64(lines - 1)) : line;
    Value offset = b.mul(own, kCacheLine / CpuBuilder::elementBytes(row.element));
    prefetchLine(b.at(row.base, row.element, b.add(b.mul(memoryRow, row.stride), offset)),
                 isWritten);
  };
  for (auto [row, tensor] : llvm::zip(sequences, scan.getSequences()))
    prefetch(row, tensor, /*isWritten=*/false);
  for (auto [row, tensor] : llvm::zip(outputs, scan.getOutputs()))
    prefetch(row, tensor, /*isWritten=*/true);
}

/// Asks for the block's share of a saved state that lies row by row: of the chunk that `memoryRow`
/// is in. The passes of `count` steps that a chunk takes each ask for a part.
void CpuScanEmitter::prefetchSaved(Value memory, RankedTensorType type, Value memoryRow,
                                   bool isWritten, const Block &block, Value firstStep,
                                   unsigned count, Value first, int64_t every) {
  Type element = type.getElementType();
  int64_t inLine = kCacheLine / CpuBuilder::elementBytes(element);
  int64_t lines = llvm::divideCeil(plan.width, inLine);
  int64_t passes = llvm::divideCeil(*scan.getSaveEvery(), count);
  int64_t share = llvm::divideCeil(steps.rows * lines, passes);
  Value start = b.mul(savedIndex(memoryRow), matrixElements());
  Value pass = b.rem(b.div(firstStep, count), passes);
  b.loop(first, b.i64(share), every, {}, [&](Value request, ValueRange) {
    Value line = b.min(b.add(b.mul(pass, share), request), b.i64(steps.rows * lines - 1));
    Value column = b.add(block.position, b.mul(b.rem(line, lines), inLine));
    Value offset = b.add(b.mul(b.div(line, lines), steps.columns), column);
    prefetchLine(b.at(memory, element, b.add(start, offset)), isWritten);
    return SmallVector<Value>();
  });
}

/// Asks for the block's share of what `count` steps from `firstStep` on take, one chunk later:
/// requests `first`, `first + every`, ….
void CpuScanEmitter::prefetchShare(const Block &block, Value firstStep, unsigned count,
                                   Value first, int64_t every) {
  Value next = b.add(firstStep, plan.chunk);
  b.loop(first, b.mul(linesOfBlock, count), every, {}, [&](Value request, ValueRange) {
    Value step = count == 1 ? next : b.add(next, b.rem(request, count));
    Value line = b.add(b.mul(b.div(request, count), numBlocks), block.index);
    prefetchStep(step, b.min(line, b.i64(mostLines() - 1)));
    return SmallVector<Value>();
  });
  if (scan.getSaves().empty() && scan.getSavedStates().empty())
    return;
  auto typeOf = [](Value tensor) { return cast<RankedTensorType>(tensor.getType()); };
  for (auto [i, saves] : llvm::enumerate(scan.getSaves()))
    if (plan.savesByRow[i] && !pooled.use.writesPerRow())
      prefetchSaved(savePointers[i], typeOf(saves), rowOfStep(firstStep), /*isWritten=*/true,
                    block, firstStep, count, first, every);
  // What is read back is taken where its chunk starts.
  Value later = b.min(b.add(firstStep, *scan.getSaveEvery()), b.sub(length, 1));
  for (auto [i, saved] : llvm::enumerate(scan.getSavedStates()))
    if (plan.savedByRow[i])
      prefetchSaved(savedPointers[i], typeOf(saved), rowOfStep(later), /*isWritten=*/false,
                    block, firstStep, count, first, every);
}

/// Runs `body` on every `every`th row, and between rows asks for the block's share of what comes
/// later.
SmallVector<Value> CpuScanEmitter::overRowsPrefetching(const Block &block, Value firstStep,
                                                       unsigned count, int64_t every,
                                                       ValueRange sums, RowBody body) {
  int64_t requests = llvm::divideCeil(steps.rows, cost::kRowsPerRequestOnCpu);
  return b.loop(b.i64(0), b.i64(requests), 1, sums, [&](Value request, ValueRange partial) {
    prefetchShare(block, firstStep, count, request, requests);
    Value from = b.mul(request, cost::kRowsPerRequestOnCpu);
    Value to = b.add(from, cost::kRowsPerRequestOnCpu);
    if (steps.rows % cost::kRowsPerRequestOnCpu)
      to = b.min(to, b.i64(steps.rows));
    return b.loop(from, to, every, partial, body);
  });
}
