//===- MergeKernels.cpp - two kernels in one launch ------------------------===//
#include "lowering/kernels/MergeKernels.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace ejk;

static bool areSame(const KernelOperand &a, const KernelOperand &b) {
  bool haveSameTiles = bool(a.tmaTile) == bool(b.tmaTile);
  if (haveSameTiles && a.tmaTile)
    haveSameTiles = a.tmaTile->rowDim == b.tmaTile->rowDim && a.tmaTile->rows == b.tmaTile->rows &&
                    a.tmaTile->blocks == b.tmaTile->blocks &&
                    a.tmaTile->byHead == b.tmaTile->byHead;
  return haveSameTiles && a.tensor == b.tensor && a.dim == b.dim && a.number == b.number;
}

static bool haveSameGrids(const Kernel &a, const Kernel &b) {
  return a.threads == b.threads && a.sequencesFrom == b.sequencesFrom &&
         a.segmented == b.segmented && a.gridDivisor == b.gridDivisor &&
         a.gridFactor == b.gridFactor && a.headsOfBlock == b.headsOfBlock &&
         a.gridSizes.size() == b.gridSizes.size() &&
         llvm::all_of_zip(a.gridSizes, b.gridSizes, areSame);
}

std::optional<Kernel> ejk::mergeKernels(Kernel first, Kernel second) {
  if (!haveSameGrids(first, second))
    return {};
  auto to = cast<gpu::GPUFuncOp>(first.function.getOperation());
  auto from = cast<gpu::GPUFuncOp>(second.function.getOperation());
  Kernel merged = first;
  merged.sharedBytes = std::max(first.sharedBytes, second.sharedBytes);
  Block &body = to.getBody().front(), &more = from.getBody().front();
  for (auto [i, operand] : llvm::enumerate(second.operands)) {
    BlockArgument argument = more.getArgument(i);
    auto known = llvm::find_if(merged.operands,
                               [&](const KernelOperand &other) { return areSame(other, operand); });
    if (known != merged.operands.end()) {
      argument.replaceAllUsesWith(body.getArgument(known - merged.operands.begin()));
      continue;
    }
    merged.operands.push_back(operand);
    unsigned place = to.getNumArguments();
    (void)to.insertArgument(place, argument.getType(), from.getArgAttrDict(i), argument.getLoc());
    argument.replaceAllUsesWith(body.getArgument(place));
  }
  Operation *end = body.getTerminator();
  for (Operation &op : llvm::make_early_inc_range(more.without_terminator()))
    op.moveBefore(end);
  StringAttr name = from.getNameAttr();
  from.erase();
  to.setName(name);
  return merged;
}
