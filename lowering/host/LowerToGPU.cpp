//===- LowerToGPU.cpp - the kernels of NVIDIA GPUs -------------------------===//
#include "lowering/Passes.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/host/LowerFunctions.h"
#include "lowering/kernels/CombineSegmentsKernel.h"
#include "lowering/kernels/HeadsKernel.h"
#include "lowering/kernels/LinalgKernel.h"
#include "lowering/kernels/MergeKernels.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/SegmentStartsKernel.h"
#include "lowering/kernels/ShiftKernel.h"
#include "lowering/kernels/SumHeadsKernel.h"
#include "lowering/step/StepKernel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk {
#define GEN_PASS_DEF_LOWERTOGPU
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// The back end for NVIDIA GPUs, in gpu and nvvm.
class GPUKernelMaker : public KernelMaker {
public:
  explicit GPUKernelMaker(const Target &target) : target(target) {}

  /// A kernel for one step has no loop over steps, and more lanes to load with.
  bool separatesSingleSteps() const override { return true; }

  FailureOr<Kernel> makeScan(ScanOp scan, gpu::GPUModuleOp module, StringRef name,
                             SizeName sizeName, bool singleStep) override {
    FailureOr<StepPlan> plan = StepPlan::make(scan, singleStep);
    if (failed(plan))
      return failure();
    if (plan->sharedBytes() > target.sharedBytesPerBlock)
      return scan.emitError() << "its steps need " << plan->sharedBytes()
                              << " bytes of shared memory for what they compute without the "
                                 "state, more than the "
                              << target.sharedBytesPerBlock << " that a thread block of "
                              << target.name << " has; split the scan";
    return emitStepKernel(*plan, module, name, sizeName);
  }
  FailureOr<Kernel> makeProgram(tile::ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                                SizeName sizeName) override {
    if (failed(checkTarget(program)))
      return failure();
    return emitTileKernel(program, module, name, sizeName);
  }
  std::optional<Kernel> merge(const Kernel &first, const Kernel &second) override {
    auto blocks = [&](unsigned bytes) { return target.sharedBytesPerBlock / std::max(bytes, 1u); };
    bool areAsMany =
        blocks(first.sharedBytes) == blocks(std::max(first.sharedBytes, second.sharedBytes));
    return areAsMany ? mergeKernels(first, second) : std::nullopt;
  }
  FailureOr<Kernel> makeElementwise(linalg::GenericOp op, gpu::GPUModuleOp module,
                                    StringRef name) override {
    return emitLinalgKernel(op, module, name);
  }
  FailureOr<Kernel> makePoolKernel(Operation *op, gpu::GPUModuleOp module,
                                   StringRef name) override {
    return emitPoolKernel(op, module, name);
  }
  bool groupsStates() const override { return true; }
  Kernel makeHeads(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    return emitHeadsKernel(op, module, name);
  }
  Kernel makeSumHeads(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) override {
    return emitSumHeadsKernel(op, module, name);
  }
  Kernel makeShift(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    return emitShiftKernel(op, module, name);
  }
  FailureOr<Kernel> makeSegments(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    if (auto starts = dyn_cast<SegmentStartsOp>(op))
      return emitSegmentStartsKernel(starts, module, name);
    return emitCombineSegmentsKernel(cast<CombineSegmentsOp>(op), module, name);
  }

private:
  /// Verifies that the target supports the layouts and the partitions of `program`.
  LogicalResult checkTarget(tile::ProgramOp program) {
    if (program->hasAttr(kWarpgroupsAttr) && !target.hasWgmma)
      return program.emitError() << "is laid out for matmuls of four warps (wgmma), which "
                                 << target.name << " lacks; sm_90a has them";
    auto bytes = program->getAttrOfType<IntegerAttr>(kSharedBytesAttr);
    if (bytes && bytes.getInt() > int64_t(target.sharedBytesPerBlock))
      return program.emitError() << "needs " << bytes.getInt()
                                 << " bytes of shared memory, more than the "
                                 << target.sharedBytesPerBlock << " that a thread block of "
                                 << target.name << " has";
    WalkResult walked = program.walk([&](Operation *op) -> WalkResult {
      if (isa<tile::WarpSpecializeOp>(op) && !target.hasBulkCopies)
        return op->emitError() << "partitions need sm_90 or newer, not " << target.name;
      if (auto partition = dyn_cast<tile::PartitionOp>(op))
        if (partition.getRegisters() && !target.hasSetMaxRegisters)
          return op->emitError() << "a partition's own registers need sm_90a or the like, not "
                                 << target.name;
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  const Target &target;
};

struct LowerToGPUPass : ejk::impl::LowerToGPUBase<LowerToGPUPass> {
  using LowerToGPUBase::LowerToGPUBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation().getLoc());
    if (!target)
      return signalPassFailure();
    GPUKernelMaker maker(*target);
    FailureOr<LoweredCounts> counts = lowerFunctions(getOperation(), maker);
    if (failed(counts))
      return signalPassFailure();
    // What converts the kernels to nvvm finds its patterns by this attribute.
    MLIRContext *context = &getContext();
    for (auto kernels : getOperation().getOps<gpu::GPUModuleOp>())
      kernels.setTargetsAttr(ArrayAttr::get(
          context, NVVM::NVVMTargetAttr::get(context, /*optLevel=*/2, "nvptx64-nvidia-cuda",
                                             target->name)));
    numScans += counts->scans;
    numBlocks += counts->programs;
    numPlain += counts->plain;
    numShared += counts->shared;
  }
};
} // namespace
