//===- Passes.h - from a scan down to PTX -------------------------*- C++ -*-===//
#ifndef EJK_LOWERING_PASSES_H
#define EJK_LOWERING_PASSES_H

#include "dialect/ejk/Attributes.h"
#include "dialect/tile/Tile.h"
#include "lowering/select/Schedule.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ejk {
#define GEN_PASS_DECL
#include "lowering/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lowering/Passes.h.inc"

struct ToGPUOptions {
  std::string arch = "sm_90";
  Schedule schedule = Schedule::step;
  /// One walk for all gradients where it fits.
  bool fuse = true;
  /// Have f_fwd give the states that f_vjp else walks all steps for.
  bool saveStates = false;
  /// Whether other warps copy rows than compute, where `arch` lets them.
  bool roles = false;
  /// Round operands of matmuls that are computed in f32 from 16-bit rows.
  bool roundComputed = true;
};
/// Splits, canonicalises and lowers scans to kernels; --ejk-to-gpu.
void buildToGPUPipeline(mlir::OpPassManager &pm, const ToGPUOptions &options = {});
/// Gives the tiles of block programs their layouts.
void buildTileLayoutPipeline(mlir::OpPassManager &pm, llvm::StringRef arch);
/// Kernels to the nvvm and llvm dialects; --ejk-to-nvvm.
void buildToNVVMPipeline(mlir::OpPassManager &pm);
void registerLoweringPipelines();
} // namespace ejk

#endif // EJK_LOWERING_PASSES_H
