// The kernels of a derivative whose gradients come of one walk, on the emulator, against
// the same programs in f64: three roundings of bf16 in a product.
// RUN: ejk-opt %s --ejk-backward --ejk-to-tile --ejk-fuse-programs -o %t.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %t.mlir --entry=f_vjp --device=cuda --random B=1,T=150,H=2,Hkv=1 --check --tolerance=5e-3 | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-to-gpu=schedule=chunk | FileCheck %s --check-prefix=GPU

// CHECK: check dq: pass
// CHECK: check dk: pass
// CHECK: check dv: pass
// CHECK: check dgk: pass

// GPU-LABEL: func.func @f_vjp(
// GPU-COUNT-2: gpu.launch_func  @kernels::@f_vjp_blocks
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
             %gk: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
