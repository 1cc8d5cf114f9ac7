//===- Compiler.h - from MLIR to a kernel package -----------------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_COMPILER_H
#define EJK_LOWERING_DRIVER_COMPILER_H

#include "lowering/Schedule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/F32Matmuls.h"
#include "passes/Rounding.h"
#include "passes/SavePolicy.h"
#include <functional>
#include <string>
#include <vector>

namespace ejk {

/// How a package is made. Defaults suit a machine with or without CUDA.
struct Manifest;
struct Entry;

/// What is known of the calls of an entry.
struct ExpectedCall {
  /// Which of its variants they may take; none where there is no call.
  std::vector<size_t> variants;
  /// The sizes of its symbols and then the device's facts; empty where they are not known.
  std::vector<int64_t> symbols;
};
/// The calls of an entry of a manifest, which is that of one architecture with all variants.
using ExpectCalls = std::function<ExpectedCall(const Manifest &, const Entry &)>;

struct CompileOptions {
  /// Whether a package has kernels for GPUs, and for which: by their names in the table of targets
  /// (Target.h); none named is the default ones. A stage's text is that of one: the last default
  /// one.
  bool forGpus = true;
  std::vector<std::string> archs;
  /// The CPUs' instruction sets that machine code is made for, by their names in CpuTarget.h.
  std::vector<std::string> cpus;
  /// Whether these are all in that table. One that multiplies bf16 is left out where no function
  /// has kernels by chunks for it.
  bool forAllCpus = false;
  /// Whether to add machine code made by ptxas. `automatic` adds it when ptxas is found, in
  /// $CUDA_HOME/bin, on PATH or in /usr/local/cuda/bin, and knows the architecture.
  enum class Cubin { automatic, never, always } cubin = Cubin::automatic;
  /// Which recurrences become kernels that work chunk by chunk, on tensor cores. With `automatic`
  /// a package has each schedule of a function, and a launch chooses.
  Schedule schedule = Schedule::automatic;
  /// Whether a derivative's walks of these become one, where that fits.
  bool fuse = true;
  /// Whether, where they do, a function f_fwd gives the states that f_vjp else walks all steps
  /// for: f's results, then `saved0` and so on, which f_vjp takes behind its cotangents.
  bool saveStates = true;
  /// Whether other warps of these copy rows than compute, from sm_90 on.
  bool warpSpecialize = false;
  /// Whether what does not depend on the state is computed in warps of its own, on sm_90a.
  bool partitionWarps = true;
  /// Whether these round operands of matmuls that are computed in f32 from 16-bit rows.
  bool roundComputed = true;
  /// Whether derivatives of these keep exponentials that are live across a branch in bf16.
  bool roundExponentials = true;
  /// The most channels of a state that derivatives of these carry and that matmuls read in two
  /// terms, where the gradient of a gate that is a number per head sums what they read.
  int64_t twoTermStates = kTwoTermStates;
  /// Which derivatives of these compute gates' gradients, and those of recurrences that correct
  /// their state, from operands in two terms.
  TwoTerms twoTerms = kDefaultTwoTerms;
  /// How recurrences of f32 rows are computed: step by step, or chunk by chunk with matmuls of f32
  /// operands in bf16 terms.
  F32Matmuls f32Matmuls = F32Matmuls::none;
  /// Which launches of these, with gates per channel, choose kernels by the gates of each head.
  ByGates byGates = kDefaultByGates;
  /// 1: also derive and compile each function's vector-Jacobian product, f_vjp, with a gradient
  /// for each argument named in `wrt`, or for every float one. 2: derive and compile that of
  /// f_vjp alone, f_vjp_vjp.
  unsigned derivatives = 0;
  std::vector<std::string> wrt;
  SavePolicy savePolicy;
  /// Whether a package holds code. One without says what a launch chooses and what that moves, and
  /// cannot be run.
  bool code = true;
  /// If given, the package holds only the kernels that these calls launch. It is then for one architecture.
  ExpectCalls expectedCalls;
  /// Asked now and then, by any of the context's threads, if given: where it says yes, compilation
  /// fails without a diagnostic.
  std::function<bool()> cancelled;
};

/// Adds the derivatives of each public function to `module`, as specialised scans. With an
/// `order` of 2 these are f_vjp and f_vjp_vjp, and only the latter stays public.
llvm::LogicalResult derive(mlir::ModuleOp module, unsigned order, llvm::ArrayRef<std::string> wrt,
                           const SavePolicy &policy);

/// The stages `ejk-compile --emit` can stop at. `tile` has block programs without layouts, `plan`
/// the same with layouts, staged copies and their final order, `schedule` a drawing of that (SVG).
/// `ptx` is a GPU's code, `assembly` a CPU's. What comes before a package is that of one
/// architecture.
enum class Stage { scan, tile, plan, schedule, gpu, nvvm, llvm, ptx, assembly, package };

/// Compiles `module` in place down to `stage` and returns the stage's text, or
/// for Stage::package the bytes of a package (package_format.h) with one entry
/// per public function. On failure the reason has been emitted as a diagnostic
/// at the user's op. Plans, as Stage::plan prints them, are checked for races and compiled as they
/// are.
llvm::FailureOr<std::string> compile(mlir::ModuleOp module, Stage stage,
                                     const CompileOptions &options = {});

/// Has passes in `context` over a module or over kernels that would start after `cancelled`, which any thread
/// may call, says so do nothing. What is left of the module is good for nothing.
void cancelPasses(mlir::MLIRContext &context, std::function<bool()> cancelled);

} // namespace ejk

#endif // EJK_LOWERING_DRIVER_COMPILER_H
