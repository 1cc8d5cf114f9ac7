// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --arch=sm_90a --schedule=chunk --random B=1,T=63,H=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --arch=sm_80 --schedule=chunk --random B=1,T=63,H=1 --check | FileCheck %s

// A chunk has one row more than the sequence. Rows that are loaded there are 0, and the gate, -1 / (1 + 400 a a), is -1. In reverse it would
// come first: the given state must not decay by it.

// CHECK: check out0: pass
// CHECK: check out1: pass
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %a: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.scan reverse
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>,
                %vt = %v : tensor<?x?x?x64xbf16>, %at = %a : tensor<?x?x?x64xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %q1 = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %k1 = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %v1 = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %one = arith.constant dense<1.0> : vector<64xf32>
    %many = arith.constant dense<-400.0> : vector<64xf32>
    %square = arith.mulf %at, %at : vector<64xf32>
    %far = arith.mulf %square, %many : vector<64xf32>
    %below = arith.subf %far, %one : vector<64xf32>
    %g = arith.divf %one, %below : vector<64xf32>
    %S0 = ejk.decay %S by %g along key : vector<64x64xf32>, vector<64xf32>
    %S1 = ejk.outer_add %S0, %k1, %v1 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S1, %q1 along key : vector<64x64xf32>, vector<64xf32>
    %y = arith.truncf %r : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%y : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
