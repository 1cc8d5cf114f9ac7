// A scale that no exponent can have, without gates and with one, forward and derived.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=ungated --device=cuda --schedule=chunk --arch=sm_90a --random B=1,T=130 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=ungated --vjp --save-states=false --device=cuda --schedule=chunk --arch=sm_90a --random B=1,T=130 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=gated --device=cuda --schedule=chunk --arch=sm_90a --random B=1,T=130 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=gated --vjp --save-states=false --device=cuda --schedule=chunk --arch=sm_90a --random B=1,T=130 --check | FileCheck %s
// CHECK: pass
// CHECK-NOT: FAIL
func.func @ungated(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>,
                   %v: tensor<?x?x2x64xbf16>) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v {softmax_scale = -1.0 : f64}
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o : tensor<?x?x2x64xbf16>
}
func.func @gated(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>,
                 %v: tensor<?x?x2x64xbf16>, %g: tensor<?x?x2xf32>) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>) {softmax_scale = -0.5 : f64}
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o : tensor<?x?x2x64xbf16>
}
