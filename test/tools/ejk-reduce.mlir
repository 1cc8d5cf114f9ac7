// RUN: ejk-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-gla.sh' | FileCheck %s

// What has no part in the fault, here that there is an ejk.gla, is cut away.
// CHECK-NOT: @other
// CHECK: ejk.gla
// CHECK-NOT: @other
func.func @other(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
func.func @fault(%q: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.gla %q, %q, %q
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  return %o : tensor<?x?x?x4xf32>
}
