// RUN: ejk-run %s --device=cpu --random N=3,T=20,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --arch=sm_90a --random N=3,T=20,H=2 --check | FileCheck %s

// A kernel loads a shifted row where it lies only if both go over the same sequences. Here the shift goes over one sequence and the scan over
// packed ones.

// CHECK: check out0: pass
func.func @packed(%x: tensor<1x?x?x16xf32>, %cu_seqlens: tensor<?xi32>) -> tensor<1x?x?x16xf32> {
  %s = ejk.shift %x by 1 : tensor<1x?x?x16xf32>
  %o = ejk.scan cu_seqlens(%cu_seqlens : tensor<?xi32>) sequences(%xt = %x : tensor<1x?x?x16xf32>, %st = %s : tensor<1x?x?x16xf32>)
      -> (tensor<1x?x?x16xf32>) {
    %y = arith.subf %xt, %st : vector<16xf32>
    ejk.yield outputs(%y : vector<16xf32>)
  }
  return %o : tensor<1x?x?x16xf32>
}
