//===- LowerToCPU.cpp - scans to CPU kernels ------------------------------===//
#include "lowering/Passes.h"
#include "lowering/cpu/CpuElementwise.h"
#include "lowering/cpu/CpuPools.h"
#include "lowering/cpu/CpuScanEmitter.h"
#include "lowering/cpu/CpuShift.h"
#include "lowering/cpu/CpuTileKernel.h"
#include "lowering/host/LowerFunctions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace ejk {
#define GEN_PASS_DEF_LOWERTOCPU
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// Kernels that take a range of a grid's items, in vector, scf and llvm.
class CpuKernelMaker : public KernelMaker {
public:
  explicit CpuKernelMaker(const CpuTarget &target) : target(target) {}

  bool separatesSingleSteps() const override { return false; }

  FailureOr<Kernel> makeScan(ScanOp scan, gpu::GPUModuleOp module, StringRef name,
                             SizeName sizeName, bool singleStep) override {
    if (scan.getSegments())
      return scan.emitError("a CPU has no scans of segments; compile with --schedule=step"),
             failure();
    FailureOr<CpuScanPlan> plan = CpuScanPlan::make(scan, target);
    if (failed(plan))
      return failure();
    return emitCpuScan(*plan, module, name, sizeName);
  }
  FailureOr<Kernel> makeProgram(tile::ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                                SizeName sizeName) override {
    if (!target.multipliesBf16)
      return program.emitError() << target.name << " has no instructions for matmuls of bf16",
             failure();
    return emitCpuProgram(program, module, name, sizeName);
  }
  FailureOr<Kernel> makeElementwise(linalg::GenericOp op, gpu::GPUModuleOp module,
                                    StringRef name) override {
    return emitCpuElementwise(op, module, name);
  }
  FailureOr<Kernel> makePoolKernel(Operation *op, gpu::GPUModuleOp module,
                                   StringRef name) override {
    return emitCpuPool(op, module, name);
  }
  bool groupsStates() const override { return false; }
  Kernel makeHeads(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    op->emitRemark("keeps a state for each query head while it runs: a CPU's kernel has no loop "
                   "over the queries of a group");
    return emitCpuHeads(op, module, name);
  }
  Kernel makeSumHeads(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) override {
    return emitCpuSumHeads(op, module, name);
  }
  Kernel makeShift(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    return emitCpuShift(op, module, name);
  }
  FailureOr<Kernel> makeSegments(Operation *op, gpu::GPUModuleOp, StringRef) override {
    return op->emitError("a CPU has no scans of segments; compile with --schedule=step"), failure();
  }

private:
  const CpuTarget &target;
};

struct LowerToCPUPass : ejk::impl::LowerToCPUBase<LowerToCPUPass> {
  using LowerToCPUBase::LowerToCPUBase;

  void runOnOperation() override {
    const CpuTarget *found = findCpuTarget(target);
    if (!found) {
      getOperation().emitError() << "no CPU target is called '" << target << "'; there are:\n"
                                 << describeCpuTargets();
      return signalPassFailure();
    }
    CpuKernelMaker maker(*found);
    FailureOr<LoweredCounts> counts = lowerFunctions(getOperation(), maker);
    if (failed(counts))
      return signalPassFailure();
    numScans += counts->scans;
    numPlain += counts->plain;
  }
};
} // namespace
