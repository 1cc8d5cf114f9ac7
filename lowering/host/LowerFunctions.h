//===- LowerFunctions.h - functions on tensors to launches --------*- C++ -*-===//
//
// Lowers a function on tensors to a program of kernel launches on buffers. This is the same for
// every back end; the back end only emits the kernels. A launch is a grid of independent blocks.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_HOST_LOWERFUNCTIONS_H
#define EJK_LOWERING_HOST_LOWERFUNCTIONS_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelSignature.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace ejk {

/// The interface of a back end: emits kernels. Each function adds a kernel called `name` to
/// `module`, or emits an error at the op and fails.
class KernelMaker {
public:
  virtual ~KernelMaker() = default;
  /// Whether a scan with a dynamic number of steps gets a separate kernel for one step.
  virtual bool separatesSingleSteps() const = 0;
  virtual llvm::FailureOr<Kernel> makeScan(ScanOp scan, mlir::gpu::GPUModuleOp module,
                                           llvm::StringRef name, SizeName sizeName,
                                           bool singleStep) = 0;
  virtual llvm::FailureOr<Kernel> makeProgram(tile::ProgramOp program,
                                              mlir::gpu::GPUModuleOp module,
                                              llvm::StringRef name, SizeName sizeName) = 0;
  /// One kernel in the place of two, whose blocks stand side by side in a launch; nothing where
  /// that cannot be, or would leave fewer blocks of the first on a multiprocessor.
  virtual std::optional<Kernel> merge(const Kernel &first, const Kernel &second) { return {}; }
  virtual llvm::FailureOr<Kernel> makeElementwise(mlir::linalg::GenericOp op,
                                                  mlir::gpu::GPUModuleOp module,
                                                  llvm::StringRef name) = 0;
  /// Of an `ejk.read_states`, `ejk.write_states` or `ejk.zero_skipped` that no scan's kernel does itself
  /// (PooledStates.h).
  virtual llvm::FailureOr<Kernel> makePoolKernel(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                                                 llvm::StringRef name) = 0;
  /// Whether programs' kernels share states by groups (GroupedStates.h).
  virtual bool groupsStates() const = 0;
  /// Of an `ejk.repeat_heads` or `ejk.first_heads`.
  virtual Kernel makeHeads(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                           llvm::StringRef name) = 0;
  virtual Kernel makeSumHeads(SumHeadsOp op, mlir::gpu::GPUModuleOp module,
                              llvm::StringRef name) = 0;
  /// Of an `ejk.shift` or an `ejk.last_rows`.
  virtual Kernel makeShift(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                           llvm::StringRef name) = 0;
  /// Of an `ejk.combine_segments` or an `ejk.segment_starts`.
  virtual llvm::FailureOr<Kernel> makeSegments(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                                               llvm::StringRef name) = 0;
};

/// The number of ops with a kernel, by kind, and of those that share another one's.
struct LoweredCounts {
  unsigned scans = 0, programs = 0, plain = 0, shared = 0;
};

/// Replaces every public function of `module` by a program that launches kernels from `maker`. The
/// kernels are in a `gpu.module` called "kernels".
llvm::FailureOr<LoweredCounts> lowerFunctions(mlir::ModuleOp module, KernelMaker &maker);

} // namespace ejk

#endif // EJK_LOWERING_HOST_LOWERFUNCTIONS_H
