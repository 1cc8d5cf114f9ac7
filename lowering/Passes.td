//===- Passes.td - from a scan down to PTX -----------------*- tablegen -*-===//
#ifndef EJK_LOWERING_PASSES_TD
#define EJK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"
include "lowering/LaidOutPasses.td"

def SelectSchedule : Pass<"ejk-select-schedule", "::mlir::ModuleOp"> {
  let summary = "scans to block programs, where their kernels fit";
  let description = [{
    Turns scans into block programs as `ejk-chunk` does, after `ejk-hoist-reductions`,
    `ejk-include-diagonal` and `ejk-narrow-saves`, with the longest chunks of 64, 32 or 16 steps
    whose kernel a thread block of `arch` has the shared memory for; the lowering itself
    says what a kernel needs. Where gates of keys and of values leave each other half of a
    product's range (`passes/chunk/ChunkedState.h`) they have at most 32 steps, over which that
    suffices for ordinary gates, of two nats a step. Scans that share
    saved states get chunks of one length, each of which saves its own, if they were to be
    saved for 64 rows or fewer, and, with `fuse`, become one loop (`ejk-fuse-programs`,
    `ejk-merge-ifs`, `ejk-scale-after-dot`) where that fits with chunks of 64. Where none
    fits, or `ejk-chunk` leaves a scan alone, it stays as it was, and a remark says why.

    With `save-states`, where such a program of f_vjp is left with nothing to do but save a
    state that f goes through as well, it makes f_fwd: f with one result more, `saved0`, that
    state as each chunk is entered with it, which f_vjp takes behind its other arguments. Of
    several recurrences there may be several, and remarks say where there is none.

    `schedule` says which: no scan (`step`), all (`chunk`), or those of 64 rows or more, or
    of a number that only a call knows (`automatic`). Where that may be one row, as in
    decoding, the scan stays beside the program for it (`tile.choose`), unless it
    shares saved states, as the scans of derivatives do.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture to fit into">,
    Option<"schedule", "schedule", "::ejk::Schedule", "::ejk::Schedule::chunk",
           "which scans become block programs", [{::llvm::cl::values(
             clEnumValN(::ejk::Schedule::step, "step", "none"),
             clEnumValN(::ejk::Schedule::chunk, "chunk", "all that have a chunkwise form"),
             clEnumValN(::ejk::Schedule::automatic, "auto", "those of many rows"))}]>,
    Option<"fuse", "fuse", "bool", "true",
           "one walk for all gradients where it fits">,
    Option<"saveStates", "save-states", "bool", "false",
           "have f_fwd give the states that f_vjp else walks all steps for">];
  let dependentDialects = [
    "::ejk::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numChunked", "chunked", "scans turned into block programs">,
                    Statistic<"numShorter", "shorter", "of them with chunks of less than 64">,
                    Statistic<"numFused", "fused", "pairs of them fused">,
                    Statistic<"numForwards", "forwards", "functions that save states for another">,
                    Statistic<"numDeclined", "declined", "scans left as they are">];
}

def LowerToGPU : Pass<"ejk-lower-to-gpu", "::mlir::ModuleOp"> {
  let summary = "scans to kernels, functions to launches";
  let description = [{
    Gives each `ejk.scan` a kernel under the step-by-step schedule, each laid-out
    `tile.program` one of tensor cores, and each `linalg.generic` a plain one, and turns the function around them into a
    program of `gpu.launch_func`s over buffers: inputs and results are memref
    arguments, results behind inputs; what passes between kernels is
    `memref.alloc`. Sizes are `memref.dim`s of the arguments. What
    `ejk-describe-interface` wrote moves along, for a package's manifest. Where
    T is dynamic and sequences are not packed, a scan gets two kernels, one for
    a single step and one for any number; T gives one of them an empty grid.

    Rows that a ring's stages hold all threads copy; or, from sm_90a on, one lane orders boxes
    of them by tensor maps, which are arguments of the kernel and `nvgpu.tma.create.descriptor`s
    of the program, where threads read a third of the tiles into registers themselves or more, and
    all rings' matrices are of 16-bit rows in panels; one warp copies vectors beside them. Where a
    packed sequence ends within a stage's rows, threads copy those.

    Sums are split over lanes and rounded in f32 in that order, the same for
    every batch, in another order by the single-step kernel; otherwise numbers do not change.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xbf16>, …) -> tensor<?x?x?x64xbf16> {
      %o, %ht = ejk.scan sequences(%qt = %q : …) …
      return %o : tensor<?x?x?x64xbf16>
    }
    ```
    After:
    ```mlir
    gpu.module @kernels { gpu.func @f_scan0(…) kernel { … } }
    func.func @f(%q: memref<?x?x?x64xbf16> {ejk.name = "q", ejk.shape = ["B", "T", "H", "64"]}, …,
                 %o: memref<?x?x?x64xbf16> {…}) attributes {ejk.num_inputs = 3 : i64} {
      gpu.launch_func @kernels::@f_scan0 blocks in (%grid, %c1, %c1) …
      return
    }
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"",
                        "the architecture, whose shared memory block programs must fit">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numScans", "scan-kernels", "kernels made for scans">,
                    Statistic<"numBlocks", "block-kernels", "kernels made for block programs">,
                    Statistic<"numPlain", "plain-kernels", "kernels made for linalg ops">];
}

def LegalizeKernelMath : Pass<"ejk-legalize-kernel-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "math in kernels without a device library";
  let description = [{
    Expands what `math` has no instruction for into upstream's f32 polynomial
    approximations (a few ulp), and rewrites f16 and bf16 arithmetic to f32
    arithmetic between widening and rounding, so that a kernel needs no
    libdevice. What is one instruction becomes LLVM's intrinsic.

    Before:
    ```mlir
    %e = math.tanh %x : vector<4xf32>
    ```
    After: clamps, multiplies and adds of `arith` and `math.fma` on vector<4xf32>.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

#endif // EJK_LOWERING_PASSES_TD
