// The fused backward kernel of a delta rule with states of 64x64 and a gate per key channel needs eight warps for its
// tiles, and then spills nothing.
//
// REQUIRES: ptxas
// RUN: ejk-compile %s --vjp --arch=sm_90a --schedule=chunk --two-terms=few-channels --by-gates=never --emit=ptx -o %t.ptx
// RUN: %ptxas -v -arch=sm_90a %t.ptx -o %t.cubin 2>&1 | FileCheck %s
// CHECK: Function properties for f_vjp_blocks1
// CHECK-NEXT: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      gk(%gk : tensor<?x?x?x64xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
