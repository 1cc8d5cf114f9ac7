//===- EmitPTX.h - kernels in the llvm dialect to PTX and machine code ----===//
#ifndef EJK_LOWERING_PTX_EMITPTX_H
#define EJK_LOWERING_PTX_EMITPTX_H

#include "lowering/target/Target.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>
#include <string>

namespace ejk {
/// The LLVM IR of `kernels`, optimised for `target`, as the text of one module.
llvm::FailureOr<std::string> emitLLVM(llvm::ArrayRef<mlir::gpu::GPUModuleOp> kernels,
                                      const Target &target);
/// The PTX of `kernels` for `target`, in the oldest version that knows it and what
/// kernels use, so that a package loads on as many drivers as it can. The context's threads make
/// that of several modules side by side; it stands in their order.
/// Fails with no diagnostic soon after `isCancelled`, which any of these threads may call, says so.
llvm::FailureOr<std::string> emitPTX(llvm::ArrayRef<mlir::gpu::GPUModuleOp> kernels,
                                     const Target &target,
                                     llvm::function_ref<bool()> isCancelled = nullptr);

/// The path of ptxas: $EJK_PTXAS, where "none" is to do without; else in $CUDA_HOME/bin, on PATH, or in
/// /usr/local/cuda/bin.
std::optional<std::string> findPtxas();
/// Assembles `ptx` with ptxas into a cubin. Emits ptxas's own words at `loc` on failure. With
/// `mayBeUnknown`, a ptxas that does not know the target gives nothing, after a warning. Fails with no
/// diagnostic soon after `isCancelled` says so, and ends ptxas.
llvm::FailureOr<std::optional<std::string>>
assemble(mlir::Location loc, llvm::StringRef ptxas, llvm::StringRef ptx, const Target &target,
         bool mayBeUnknown, llvm::function_ref<bool()> isCancelled = nullptr);
} // namespace ejk

#endif // EJK_LOWERING_PTX_EMITPTX_H
