//===- KernelPasses.td - kernels, and rewrites of them ---------*- tablegen -*-===//
#ifndef EJK_LOWERING_KERNELPASSES_TD
#define EJK_LOWERING_KERNELPASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToGPU : Pass<"ejk-lower-to-gpu", "::mlir::ModuleOp"> {
  let summary = "lower scans to kernels and functions to launches";
  let description = [{
    What: gives each `ejk.scan` a step-by-step kernel, each laid-out `tile.program` a tensor-core
    kernel and each `linalg.generic` an elementwise kernel. The function around them becomes a
    program of `gpu.launch_func`s over buffers: inputs and results are memref arguments, results
    after inputs; tensors between kernels are `memref.alloc`s. Sizes are `memref.dim`s of the
    arguments. The attributes of `ejk-describe-interface` are kept for the package's manifest. Where
    T is dynamic and sequences are not packed, a scan gets two kernels, one for a single step and
    one for any number; T gives one of them an empty grid. Scans of derivatives and scans over
    segments have one kernel.

    Scans, programs and sums over heads that compute the same share a kernel, which has the name of
    the first: alternatives of a function (`ejk-make-alternatives`) have such ops in common.

    All threads copy the rows of a ring's stages. From sm_90a on, one elected lane issues TMA loads
    instead where threads read at least a third of the tiles into registers and all matrices of the
    rings are 128-byte-swizzled tiles of 16 bits or f32. Threads copy f32 rows of three stages or
    more. One warp copies vectors beside TMA loads. The tensor maps
    are kernel arguments, made by `nvgpu.tma.create.descriptor` in the program. Where a packed
    sequence ends within a stage's rows, threads copy those.

    Results change by the order of f32 sums: sums are split over lanes, in an order that is the same
    for every batch, and in another one by the single-step kernel.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xbf16>, …) -> tensor<?x?x?x64xbf16> {
      %o, %ht = ejk.scan sequences(%qt = %q : …) …
      return %o : tensor<?x?x?x64xbf16>
    }
    ```
    After:
    ```mlir
    gpu.module @kernels [#nvvm.target<chip = "sm_90a">] { gpu.func @f_scan0(…) kernel { … } }
    func.func @f(%q: memref<?x?x?x64xbf16> {ejk.name = "q", ejk.shape = ["B", "T", "H", "64"]}, …,
                 %o: memref<?x?x?x64xbf16> {…}) attributes {ejk.num_inputs = 3 : i64} {
      gpu.launch_func @kernels::@f_scan0 blocks in (%grid, %c1, %c1) …
      return
    }
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"",
                        "the architecture, whose shared memory tile programs must fit">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::nvgpu::NVGPUDialect", "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"numScans", "scan-kernels", "scans with a kernel">,
                    Statistic<"numBlocks", "block-kernels", "tile programs with a kernel">,
                    Statistic<"numPlain", "plain-kernels", "other ops with a kernel">,
                    Statistic<"numShared", "shared-kernels",
                              "ops with the kernel of another one that computes the same">];
}

def LowerToCPU : Pass<"ejk-lower-to-cpu", "::mlir::ModuleOp"> {
  let summary = "lower scans to a CPU's kernels and functions to launches";
  let description = [{
    What: gives each `ejk.scan`, `linalg.generic` and `ejk.sum_heads` a kernel for a CPU of
    `target`. The function around them becomes a program of launches, as `ejk-lower-to-gpu`
    makes one: `gpu.launch_func` stands for a grid of independent items, of which the runtime
    gives each thread a range.

    Why: a core's vector registers hold a few columns of a state; they take the place of a GPU's
    threads. A kernel is a function of the launch's arguments and a range of items, `(arguments,
    first, end)`. An item of a scan is one column block of one sequence and head. Items of one
    head in one range share what its steps compute along the rows.

    Requires: scans that the step-by-step schedule takes (`ejk-split-reads`, `ejk-split-sums`,
    `ejk-split-rotations`), and `ejk-describe-interface`.

    Results change by the order of f32 sums. They do not depend on how items are divided among
    threads.

    Before:
    ```mlir
    func.func @f(%q: tensor<?x?x?x64xf32>, …) -> tensor<?x?x?x64xf32> {
      %o, %ht = ejk.scan sequences(%qt = %q : …) …
      return %o : tensor<?x?x?x64xf32>
    }
    ```
    After:
    ```mlir
    gpu.module @kernels {
      llvm.func @f_scan0(%args: !llvm.ptr, %first: i64, %end: i64) attributes {gpu.kernel} { … }
    }
    func.func @f(%q: memref<?x?x?x64xf32> {…}, …, %o: memref<?x?x?x64xf32> {…}) {
      gpu.launch_func @kernels::@f_scan0 blocks in (%items, %c1, %c1) …
      return
    }
    ```
  }];
  let options = [Option<"target", "target", "std::string", "\"x86-64-v4\"",
                        "the instruction set, by its name in the table of CPUs">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numScans", "scan-kernels", "kernels made for scans">,
                    Statistic<"numPlain", "plain-kernels", "kernels made for other ops">];
}

def FuseElementwise : Pass<"ejk-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "fuse elementwise linalg ops, up to a size";
  let description = [{
    Fuses a `linalg.generic` with the one op that uses it, by upstream's patterns, as
    `--linalg-fuse-elementwise-ops` does. What stands between recurrences becomes as few kernels as
    it can, and passes through memory as seldom. Numbers do not change.

    A fused op has at most `most-ops` ops in its body. Each fusion copies both bodies, so that a
    chain of n ops that became one would take time and memory in n². A kernel of so many ops gains
    nothing from one more: its memory traffic is a small part of its time.

    A tensor of conditions (i1) cannot pass from one kernel to another. Each of its users gets a copy
    of the op that makes it, and fuses with that whatever their size.

    Before:

    ```mlir
    %a = linalg.generic … ins(%x) { math.exp }
    %b = linalg.generic … ins(%a) { arith.negf }
    ```

    After:

    ```mlir
    %b = linalg.generic … ins(%x) { math.exp; arith.negf }
    ```
  }];
  let options = [Option<"mostOps", "most-ops", "int64_t", "128", "ops in the body of a fused op">];
  let statistics = [Statistic<"numFused", "fused", "linalg ops that became part of another">];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::affine::AffineDialect"];
}

def SeparateKernels : Pass<"ejk-separate-kernels", "::mlir::ModuleOp"> {
  let summary = "give each kernel a module of its own";
  let description = [{
    What: moves every kernel of a `gpu.module` but the first into a `gpu.module` of the kernel's name,
    with copies of the globals that it uses. Launches name the new module.

    Why: modules are compiled side by side, on as many threads as the context has. A derivative has some
    forty kernels; compiling them one after the other took most of a compilation's time.

    Before:
    ```mlir
    gpu.module @kernels { gpu.func @f(…) kernel { … } gpu.func @g(…) kernel { … } }
    gpu.launch_func @kernels::@g …
    ```
    After:
    ```mlir
    gpu.module @kernels { gpu.func @f(…) kernel { … } }
    gpu.module @g { gpu.func @g(…) kernel { … } }
    gpu.launch_func @g::@g …
    ```
  }];
  let statistics = [Statistic<"numSeparated", "separated", "kernels with a new module">];
  let dependentDialects = ["::mlir::gpu::GPUDialect"];
}

def LegalizeKernelMath : Pass<"ejk-legalize-kernel-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "math in kernels without a device library";
  let description = [{
    Expands each op of `math` that has no instruction into f32 arithmetic, and
    rewrites f16 and bf16 arithmetic to f32 arithmetic between widening and
    rounding, so that a kernel needs no libdevice. What is one instruction
    becomes LLVM's intrinsic. Expansions are upstream's where those are right in
    the op's whole domain; docs/elementwise.md has each op's largest error.

    `math.sin`, `math.cos` and `math.tan` subtract a multiple of π/2 in three
    parts. Where an element is larger than 65,536, a branch takes the bits of
    2/π that matter instead. With `special-function-unit`, as NVIDIA's GPUs
    have it, math.exp is `ex2.approx` of what is left of x·log2 e beside an integer
    instead of a polynomial, math.rsqrt is `rsqrt.approx`, and a quotient by what
    lies between bounds, as 1 + e^-x of a sigmoid does, is `rcp.approx` made
    exact by its residual. `math.log1p` of what lies between 0 and 1, as of a
    softplus, is a shorter polynomial.

    Before:
    ```mlir
    %e = math.tanh %x : vector<4xf32>
    ```
    After: clamps, multiplies and adds of `arith` and `math.fma` on vector<4xf32>.
  }];
  let options = [Option<"specialFunctionUnit", "special-function-unit", "bool", "false",
                        "Whether the target has a unit for 2^x and 1/x">];
  let statistics = [Statistic<"numExpanded", "expanded", "math ops that became arithmetic">,
                    Statistic<"numIntrinsics", "intrinsics", "ops that became intrinsics of LLVM">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def HoldBf16AsBits : Pass<"ejk-hold-bf16-as-bits", "::mlir::gpu::GPUModuleOp"> {
  let summary = "bf16 values as integers, on CPUs that do not round to bf16";
  let description = [{
    Gives what is bf16 the type i16. Without instructions for bf16, LLVM carries such a value from one
    block of a function to another in f32, and calls a library to round it again. Arithmetic of bf16
    and conversions from and to f32 are integer ops by then (`arith-expand`), so that loads, stores,
    constants and selects are left. Runs on the llvm dialect; an op that computes with bf16 is an error.

    Before:
    ```mlir
    %0 = llvm.bitcast %bits : vector<8xi16> to vector<8xbf16>
    llvm.store %0, %p : vector<8xbf16>, !llvm.ptr
    ```
    After:
    ```mlir
    %0 = llvm.bitcast %bits : vector<8xi16> to vector<8xi16>
    llvm.store %0, %p : vector<8xi16>, !llvm.ptr
    ```
  }];
  let statistics = [Statistic<"numHeld", "held", "results of ops that became integers">];
}

#endif // EJK_LOWERING_KERNELPASSES_TD
