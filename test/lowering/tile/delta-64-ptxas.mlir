// A delta rule with states of 64x64 and a gate per key channel spills nothing, forward or backward.
// The tiles of its fused backward kernel need eight warps. The kernels for few heads are not among these.
//
// REQUIRES: ptxas
// RUN: ejk-compile %s --vjp --arch=sm_90a --schedule=chunk --two-terms=few-channels --emit=ptx -o %t.ptx
// RUN: %ptxas -v -arch=sm_90a %t.ptx -o %t.cubin 2>&1 | FileCheck %s
// CHECK: entry function 'f_vjp_blocks1'
// CHECK-NOT: {{[1-9][0-9]* bytes spill}}
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      gk(%gk : tensor<?x?x?x64xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
