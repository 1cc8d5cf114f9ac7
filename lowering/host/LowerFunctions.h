//===- LowerFunctions.h - functions on tensors to launches --------*- C++ -*-===//
//
// A function becomes a program of launches over buffers in the same way for every back end. A
// back end makes the kernels: a launch is a grid of independent blocks of work.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_HOST_LOWERFUNCTIONS_H
#define EJK_LOWERING_HOST_LOWERFUNCTIONS_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelSignature.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace ejk {

/// What a back end makes a kernel of. Each function adds a kernel called `name` to `module`,
/// or fails after an error at the op in the way.
class KernelMaker {
public:
  virtual ~KernelMaker() = default;
  /// Whether a scan that may have one step or several gets a kernel for each case.
  virtual bool separatesSingleSteps() const = 0;
  virtual llvm::FailureOr<Kernel> makeScan(ScanOp scan, mlir::gpu::GPUModuleOp module,
                                           llvm::StringRef name, SizeName sizeName,
                                           bool singleStep) = 0;
  virtual llvm::FailureOr<Kernel> makeProgram(tile::ProgramOp program,
                                              mlir::gpu::GPUModuleOp module,
                                              llvm::StringRef name, SizeName sizeName) = 0;
  virtual llvm::FailureOr<Kernel> makeElementwise(mlir::linalg::GenericOp op,
                                                  mlir::gpu::GPUModuleOp module,
                                                  llvm::StringRef name) = 0;
  virtual Kernel makeSumHeads(SumHeadsOp op, mlir::gpu::GPUModuleOp module,
                              llvm::StringRef name) = 0;
};

/// How many kernels were made of what.
struct LoweredCounts {
  unsigned scans = 0, programs = 0, plain = 0;
};

/// Replaces every public function of `module` by a program of launches of kernels that `maker`
/// makes, in a `gpu.module` called "kernels".
llvm::FailureOr<LoweredCounts> lowerFunctions(mlir::ModuleOp module, KernelMaker &maker);

} // namespace ejk

#endif // EJK_LOWERING_HOST_LOWERFUNCTIONS_H
