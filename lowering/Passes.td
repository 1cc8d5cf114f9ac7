//===- Passes.td - from a scan down to PTX ----------------------*- tablegen -*-===//
#ifndef EJK_LOWERING_PASSES_TD
#define EJK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

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
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numScans", "scan-kernels", "kernels made for scans">,
                    Statistic<"numBlocks", "block-kernels", "kernels made for block programs">,
                    Statistic<"numPlain", "plain-kernels", "kernels made for linalg ops">];
}

def AssignTileLayouts : Pass<"ejk-assign-tile-layouts", "::mlir::ModuleOp"> {
  let summary = "how each tile of a block program lies over the threads";
  let description = [{
    Chooses the warps that work on a `tile.program`, four or, for tiles of more than
    64×64 numbers, eight, and gives each tile a layout, on the op that makes it:
    loaded rows and operands of products are in shared memory, other matrices in
    fragments of `mma.sync` divided over the warps as their sizes ask for, vectors
    over a warp's lanes, and what is one number in all elements is uniform. Where
    an op needs another layout than its operand has, a `tile.convert` says so;
    statistics count them. Numbers do not change.

    Before:
    ```mlir
    %q = tile.load %qr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %f = arith.extf %q : vector<64x64xbf16> to vector<64x64xf32>
    ```
    After:
    ```mlir
    %q = tile.load %qr[%first, %c0] {tile.layouts = [#tile.layout<shared>]} : …
    %a = tile.convert %q to <fragments over 2 by 2> : vector<64x64xbf16>
    %f = arith.extf %a {tile.layouts = [#tile.layout<fragments over 2 by 2>]} : …
    ```
  }];
  let dependentDialects = ["::ejk::tile::TileDialect"];
  let statistics = [
    Statistic<"toShared", "to-shared", "conversions to shared memory">,
    Statistic<"toFragments", "to-fragments", "conversions to fragments">,
    Statistic<"toLanes", "to-lanes", "conversions to vectors over lanes">];
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
