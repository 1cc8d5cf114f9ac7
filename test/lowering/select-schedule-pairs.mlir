// What the second program of a derivative needs is found out while the first one, whose saved states it takes, is still
// a scan. It must be what the planned program needs: with the scaling of its state deferred, which programs that share
// saved states may not do, 32 rows seemed to need 220,416 bytes of a block's 232,448, and needed 246,272.
// RUN: ejk-compile %s --vjp --wrt=q,k,g_gamma --schedule=chunk --arch=sm_90a --two-terms=few-channels --print-cost-model --emit=gpu -o %t.mlir 2>&1 | FileCheck %s
// CHECK-NOT: error:
// CHECK: Function=f_vjp | {{.*}}chosen="32 rows do not fit"
// CHECK-NOT: chosen="no stages"
// CHECK: stages | {{.*}}Function=f_vjp_blocks1 | bytes needed={{.*}}chosen="1 stage
func.func @f(%q: tensor<1x?x4x32xf16> {ejk.name = "q"}, %k: tensor<1x?x4x32xf16> {ejk.name = "k"},
             %v: tensor<1x?x4x454xf16>, %g_gamma: tensor<4xf32> {ejk.name = "g_gamma"},
             %gv: tensor<1x?x4x454xf32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<1x?x4x454xf16>, tensor<?x4x32x454xf32>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v g_gamma(%g_gamma : tensor<4xf32>) gv(%gv : tensor<1x?x4x454xf32>)
        cu_seqlens(%cu_seqlens : tensor<?xi32>)
      : tensor<1x?x4x32xf16>, tensor<1x?x4x32xf16>, tensor<1x?x4x454xf16>
      -> tensor<1x?x4x454xf16>, tensor<?x4x32x454xf32>
  return %o, %ht : tensor<1x?x4x454xf16>, tensor<?x4x32x454xf32>
}
