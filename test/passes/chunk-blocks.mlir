// Rows that are arguments of a function's second block are no arguments of the function, whose attributes
// say nothing of them.
// RUN: ejk-opt %s --ejk-chunk=f32-matmuls=bf16x6 | FileCheck %s

// CHECK-LABEL: func.func @second_block(
// CHECK: ^bb1(%[[A:.*]]: tensor<2x9x2x16xf32>, %[[B:.*]]: tensor<2x9x2x16xf32>, %[[C:.*]]: tensor<2x9x2x16xf32>):
// CHECK-NEXT: %[[O:.*]] = tile.program chunk 64 slices 1 sequences(%[[A]], %[[B]], %[[C]] :
// CHECK-NOT: ejk.scan
// CHECK: return %[[O]] :
func.func @second_block(%q: tensor<2x9x2x16xf32>) -> tensor<2x9x2x16xf32> {
  cf.br ^bb1(%q, %q, %q : tensor<2x9x2x16xf32>, tensor<2x9x2x16xf32>, tensor<2x9x2x16xf32>)
^bb1(%a: tensor<2x9x2x16xf32>, %b: tensor<2x9x2x16xf32>, %c: tensor<2x9x2x16xf32>):
  %o, %ht = ejk.scan
      sequences(%x = %a : tensor<2x9x2x16xf32>, %k = %b : tensor<2x9x2x16xf32>, %v = %c : tensor<2x9x2x16xf32>)
      states(%s = zero : tensor<2x2x16x16xf32>) -> (tensor<2x9x2x16xf32>) {
    %s1 = ejk.outer_add %s, %k, %v : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %r = ejk.read %s1, %x along key : vector<16x16xf32>, vector<16xf32>
    ejk.yield states(%s1 : vector<16x16xf32>) outputs(%r : vector<16xf32>)
  }
  return %o : tensor<2x9x2x16xf32>
}
