//===- EmitPTX.h - kernels in the llvm dialect to PTX and machine code ----===//
#ifndef EJK_LOWERING_PTX_EMITPTX_H
#define EJK_LOWERING_PTX_EMITPTX_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <optional>
#include <string>

namespace ejk {
/// The LLVM IR of `kernels`, optimised for `arch` (sm_80 or newer), as text.
llvm::FailureOr<std::string> emitLLVM(mlir::gpu::GPUModuleOp kernels, llvm::StringRef arch);
/// The PTX of `kernels` for `arch`.
llvm::FailureOr<std::string> emitPTX(mlir::gpu::GPUModuleOp kernels, llvm::StringRef arch);

/// The path of ptxas: in $CUDA_HOME/bin, on PATH, or in /usr/local/cuda/bin.
std::optional<std::string> findPtxas();
/// Assembles `ptx` with ptxas into a cubin. Emits ptxas's own words at `loc` on failure.
llvm::FailureOr<std::string> assemble(mlir::Location loc, llvm::StringRef ptxas,
                                      llvm::StringRef ptx, llvm::StringRef arch);
} // namespace ejk

#endif // EJK_LOWERING_PTX_EMITPTX_H
