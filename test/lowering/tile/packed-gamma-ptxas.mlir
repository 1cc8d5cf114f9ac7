// The derivative with γ over packed sequences keeps all that it uses in registers, on each kind of
// tensor cores.
// REQUIRES: ptxas
// RUN: ejk-compile %s --arch=sm_80 --schedule=chunk --vjp --save-states --emit=ptx -o %t.80.ptx
// RUN: %ptxas -v -arch=sm_80 %t.80.ptx -o %t.cubin 2>&1 | FileCheck %s
// RUN: ejk-compile %s --arch=sm_90 --schedule=chunk --vjp --save-states --emit=ptx -o %t.90.ptx
// RUN: %ptxas -v -arch=sm_90 %t.90.ptx -o %t.cubin 2>&1 | FileCheck %s
// RUN: ejk-compile %s --arch=sm_90a --schedule=chunk --vjp --save-states --emit=ptx -o %t.90a.ptx
// RUN: %ptxas -v -arch=sm_90a %t.90a.ptx -o %t.cubin 2>&1 | FileCheck %s

// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{[1-9][0-9]* bytes spill}}
func.func @f(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x128xbf16>,
             %gamma: tensor<?xf32>, %cu: tensor<?xi32>)
    -> (tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%gamma : tensor<?xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x128xbf16>
      -> tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>
  return %o, %ht : tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>
}
