// A reducer also tries modules that are not valid: ops without their operands, blocks without an end.
// It says nothing of those. It does say why a file cannot be reduced at all.
// RUN: ejk-opt %s --ejk-specialize -o %t.mlir
// RUN: ejk-reduce %t.mlir -reduction-tree='traversal-mode=0 test=%S/Inputs/has-read.sh' -o %t.out.mlir 2>%t.err
// RUN: count 0 < %t.err
// RUN: FileCheck %s < %t.out.mlir
// RUN: not ejk-reduce %t.mlir -reduction-tree='traversal-mode=0 test=/bin/true' -o %t.none.mlir 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: uninterested module will not be reduced

// CHECK-NOT: @other
// CHECK: ejk.read
func.func @other(%x: f32) -> f32 {
  return %x : f32
}
func.func @f(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %sum = arith.addf %q, %k : tensor<?x?x?x16xf32>
  %o, %ht = ejk.recurrent %sum, %k, %k
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
      -> tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
