//===- Pipelines.h - named pipelines from scans to nvvm -----------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_PIPELINES_H
#define EJK_LOWERING_DRIVER_PIPELINES_H

#include "lowering/Schedule.h"
#include "mlir/Pass/PassManager.h"
#include "passes/F32Matmuls.h"
#include "passes/Rounding.h"
#include <string>

namespace ejk {

struct ToGPUOptions {
  std::string arch = "sm_90";
  Schedule schedule = Schedule::step;
  /// One walk for all gradients where it fits.
  bool fuse = true;
  /// Have f_fwd give the states that f_vjp else walks all steps for.
  bool saveStates = false;
  /// Whether other warps copy rows than compute, where `arch` lets them.
  bool warpSpecialize = false;
  /// Whether what does not depend on the state is computed in warps of its own, where `arch` lets them.
  bool partitionWarps = true;
  /// Round operands of matmuls that are computed in f32 from 16-bit rows.
  bool roundComputed = true;
  /// Keep exponentials that are live across a chunk's branch in bf16.
  bool roundExponentials = true;
  /// The most channels of a carried state that a gate's gradient reads in two terms.
  int64_t twoTermStates = kTwoTermStates;
  /// Which derivatives compute gates' gradients, and those of recurrences that correct their
  /// state, from operands in two terms.
  TwoTerms twoTerms = kDefaultTwoTerms;
  /// How recurrences of f32 rows are computed.
  F32Matmuls f32Matmuls = F32Matmuls::none;
  /// Which launches choose programs by the gates of each head.
  ByGates byGates = kDefaultByGates;
  /// The elements of a state up to which a scan's reads along both axes stay in one scan; see
  /// ejk-split-reads.
  int64_t keepReadsUpTo = 0;
  /// Block programs for a CPU, of what alternatives by chunks there are.
  bool chunksOfCpu = false;
};
/// Selects each scan's schedule: scans with a chunkwise form become block programs without layouts,
/// the others are split into scans that one kernel each computes. What stands between them becomes
/// linalg ops.
void buildToTilePipeline(mlir::OpPassManager &pm, const ToGPUOptions &options = {});
/// Gives each tile of the block programs its layout, orders their matmuls, and turns their loads
/// into copies through a ring of stages.
void buildPlanPipeline(mlir::OpPassManager &pm, const ToGPUOptions &options = {});
/// Makes kernels of planned programs and of scans, and their launches.
void buildPlanToGPUPipeline(mlir::OpPassManager &pm, const ToGPUOptions &options = {});
/// All three; --ejk-to-gpu.
void buildToGPUPipeline(mlir::OpPassManager &pm, const ToGPUOptions &options = {});
/// Kernels to the nvvm and llvm dialects; --ejk-to-nvvm.
void buildToNVVMPipeline(mlir::OpPassManager &pm);
/// Splits, canonicalises and lowers scans to a CPU's kernels; --ejk-to-cpu. With `chunks`, those of
/// bf16 rows also by chunks, where `target` multiplies bf16.
void buildToCPUPipeline(mlir::OpPassManager &pm, llvm::StringRef target,
                        Schedule schedule = Schedule::step);
/// A CPU's kernels to the llvm dialect; --ejk-cpu-to-llvm. Where its instructions `roundBf16`, they
/// round to it.
void buildCPUToLLVMPipeline(mlir::OpPassManager &pm, bool roundBf16 = false);
void registerLoweringPipelines();

} // namespace ejk

#endif // EJK_LOWERING_DRIVER_PIPELINES_H
