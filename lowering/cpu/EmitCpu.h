//===- EmitCpu.h - kernels in the llvm dialect to machine code ----*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_EMITCPU_H
#define EJK_LOWERING_CPU_EMITCPU_H

#include "lowering/target/CpuTarget.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace ejk {

enum class CpuText { llvm, assembly };

/// Optimised LLVM IR, or assembly, as text.
llvm::FailureOr<std::string> emitCpuText(mlir::gpu::GPUModuleOp kernels, const CpuTarget &target,
                                         CpuText kind);

/// A relocatable ELF object.
/// Fails with no diagnostic soon after `isCancelled` says so.
llvm::FailureOr<std::string> emitCpuObject(mlir::gpu::GPUModuleOp kernels, const CpuTarget &target,
                                           llvm::function_ref<bool()> isCancelled = nullptr);

} // namespace ejk

#endif // EJK_LOWERING_CPU_EMITCPU_H
