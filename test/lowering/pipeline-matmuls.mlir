// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=3 -o %t.mlir
// RUN: ejk-opt %t.mlir --ejk-pipeline-matmuls -o %t.rotated.mlir
// RUN: FileCheck %s < %t.rotated.mlir
// RUN: ejk-opt %t.rotated.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %t.rotated.mlir --ejk-specialize-warps --ejk-interpret=partition-seed=3 -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=2 --ejk-pipeline-matmuls | FileCheck %s --check-prefix=TWO

// Q Kᵀ of the next chunk is issued behind this one's products. With two stages there is no
// room for its rows.
// TWO-NOT: tile.take held
// CHECK-LABEL: func.func @ahead
// CHECK: %[[RING:.*]] = tile.make_ring : <3 of
// CHECK: %[[FIRST:.*]]:2 = tile.take %[[RING]][%{{.*}}]
// CHECK: %[[P0:.*]] = tile.dot %[[FIRST]]#0, %[[FIRST]]#1 transposed
// CHECK: scf.for %[[C:.*]] = {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[P:.*]] = %[[P0]])
// CHECK: %[[HELD:.*]]:2 = tile.take held %[[RING]][%[[C]]]
// CHECK: tile.mask lower %[[P]]
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: %[[BEHIND:.*]] = arith.addi %[[C]], %[[ONE]]
// CHECK: %[[NEXT:.*]]:2 = tile.take %[[RING]][%[[BEHIND]]]
// CHECK-NEXT: tile.dot {{.*}}, %[[HELD]]#1
// CHECK-NEXT: %[[S1:.*]] = tile.dot %[[HELD]]#1 transposed, %[[HELD]]#1, %[[S]]
// CHECK-NEXT: %[[P1:.*]] = tile.dot %[[NEXT]]#0, %[[NEXT]]#1 transposed
// CHECK-NEXT: tile.acquire
// CHECK-NEXT: tile.fill
// CHECK: tile.release %[[RING]][%[[C]]]
// CHECK: scf.yield %[[S1]], %[[P1]]
func.func @ahead() {
  %q = check.random normal seed 1 : tensor<2x70x2x8xf32>
  %k = check.random normal seed 2 : tensor<2x70x2x8xf32>
  %o, %ht = tile.program chunk 16 slices 1
      sequences(%q, %k : tensor<2x70x2x8xf32>, tensor<2x70x2x8xf32>)
      outputs(tensor<2x70x2x8xf32>) finals(tensor<2x2x8x8xf32>) {
  ^bb0(%qr: !tile.rows<vector<8xf32>>, %kr: !tile.rows<vector<8xf32>>, %or: !tile.rows<vector<8xf32>>,
       %hr: !tile.slots<vector<8x8xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %start = arith.constant dense<0.0> : vector<8x8xf32>
    %n = arith.ceildivui %length, %c16 : index
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> vector<8x8xf32> {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<8xf32>> -> vector<16x8xf32>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<8xf32>> -> vector<16x8xf32>
      %p = tile.dot %qt, %kt transposed, %zero : vector<16x8xf32>, vector<16x8xf32>, vector<16x16xf32>
      %before = arith.constant dense<0.0> : vector<16x8xf32>
      %qs = tile.dot %qt, %s, %before : vector<16x8xf32>, vector<8x8xf32>, vector<16x8xf32>
      %m = tile.mask lower %p else 0.0 : vector<16x16xf32>
      %r = tile.dot %m, %kt, %qs : vector<16x16xf32>, vector<16x8xf32>, vector<16x8xf32>
      %next = tile.dot %kt transposed, %kt, %s : vector<16x8xf32>, vector<16x8xf32>, vector<8x8xf32>
      tile.store %r, %or[%first, %c0] : vector<16x8xf32>, !tile.rows<vector<8xf32>>
      scf.yield %next : vector<8x8xf32>
    }
    tile.store_slot %end, %hr[%c0] at (%c0, %c0) : vector<8x8xf32>, !tile.slots<vector<8x8xf32>>
    tile.end
  }
  %o1, %h1 = ejk.recurrent %q, %k, %k {softmax_scale = 1.0} : tensor<2x70x2x8xf32>, tensor<2x70x2x8xf32>, tensor<2x70x2x8xf32> -> tensor<2x70x2x8xf32>, tensor<2x2x8x8xf32>
  check.expect_close %o, %o1 max_relative 1.0e-12 : tensor<2x70x2x8xf32>
  check.expect_close %ht, %h1 max_relative 1.0e-12 : tensor<2x2x8x8xf32>
  return
}
