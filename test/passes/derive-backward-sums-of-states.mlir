// A K×V state that is no update's or read's, but a sum of states, is not among what the derivative
// computes from vectors. No gradient goes through it here: the inputs do not reach it.
// RUN: ejk-opt %s --ejk-derive-backward | FileCheck %s
// RUN: ejk-opt %s --ejk-backward -o /dev/null
// CHECK-LABEL: func.func @doubled_vjp
// CHECK: ejk.scan reverse
// CHECK-NOT: arith.addf
// CHECK: return
func.func @doubled(%x: tensor<?x?x?x4xf32>, %p: tensor<4x8xf32>) -> tensor<?x?x4x8xf32> {
  %ht = ejk.scan
      sequences(%xt = %x : tensor<?x?x?x4xf32>)
      parameters(%pt = %p : tensor<4x8xf32> as vector<4x8xf32>)
      states(%S = zero : tensor<?x?x4x8xf32>) {
    %S1 = arith.addf %S, %S : vector<4x8xf32>
    ejk.yield states(%S1 : vector<4x8xf32>)
  }
  return %ht : tensor<?x?x4x8xf32>
}
