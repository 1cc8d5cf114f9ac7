// RUN: ejk-opt %s --ejk-multistage-loads --verify-diagnostics | FileCheck %s

// What cannot be copied ahead stays.
// CHECK-LABEL: func.func @declined
func.func @declined() {
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %b = check.random normal seed 2 : tensor<2x70x2xbf16>
  %o:2 = tile.program chunk 16 slices 1 sequences(%g, %b : tensor<2x70x2xf32>, tensor<2x70x2xbf16>)
      outputs(tensor<2x70x2xf32>, tensor<2x70x2xbf16>) {
  ^bb0(%gr: !tile.rows<f32>, %br: !tile.rows<bf16>, %pr: !tile.rows<f32>, %or: !tile.rows<bf16>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    // CHECK-NOT: tile.make_ring
    %x = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %last:2 = scf.for %c = %c0 to %n step %c1 iter_args(%first = %c0, %before = %x) -> (index, vector<16xf32>) {
      // expected-remark @below {{not copied ahead: its rows follow from more than the loop's counter}}
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
      // expected-remark @below {{not copied ahead: its rows are too narrow, or not aligned, to be copied asynchronously}}
      %bt = tile.load %br[%first, %c0] : !tile.rows<bf16> -> vector<16xbf16>
      %f = arith.muli %c, %c16 : index
      // expected-remark @below {{not copied ahead: it is handed on to the next iteration}}
      %now = tile.load %gr[%f, %c0] : !tile.rows<f32> -> vector<16xf32>
      tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
      tile.store %bt, %or[%first, %c0] : vector<16xbf16>, !tile.rows<bf16>
      %next = arith.addi %first, %c16 : index
      scf.yield %next, %now : index, vector<16xf32>
    }
    tile.end
  }
  check.expect_equal %o#0, %g : tensor<2x70x2xf32>
  check.expect_equal %o#1, %b : tensor<2x70x2xbf16>
  return
}

// Rows of f32 whose tile stays in registers, from the last chunk to the first: the cache is asked for those of
// the next iteration, which are none in the last one.
// CHECK-LABEL: func.func @ahead
func.func @ahead() {
  %r = check.random normal seed 3 : tensor<2x70x2x8xf32>
  %o = tile.program chunk 16 slices 1 sequences(%r : tensor<2x70x2x8xf32>) outputs(tensor<2x70x2x8xf32>) {
  // CHECK: {{\^}}bb0(%[[R:[a-z0-9]+]]: !tile.rows
  ^bb0(%rr: !tile.rows<vector<8xf32>>, %or: !tile.rows<vector<8xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    %end = arith.subi %n, %c1 : index
    // CHECK: scf.for %[[C:.*]] =
    scf.for %c = %c0 to %n step %c1 {
      %back = arith.subi %end, %c : index
      // CHECK: %[[FIRST:.*]] = arith.muli
      %first = arith.muli %back, %c16 : index
      // CHECK: %[[NEXT:.*]] = arith.addi %[[C]],
      // CHECK: %[[BACK:.*]] = arith.subi %{{.*}}, %[[NEXT]]
      // CHECK: %[[AHEAD:.*]] = arith.muli %[[BACK]],
      // CHECK: tile.prefetch %[[R]][%[[AHEAD]], %{{.*}}] for vector<16x8xf32>
      // CHECK: tile.load %[[R]][%[[FIRST]], %{{.*}}]
      // expected-remark @below {{not copied ahead: it does not go to shared memory}}
      %t = tile.load %rr[%first, %c0] {tile.layouts = [#tile.layout<fragments over 1 by 1>]}
          : !tile.rows<vector<8xf32>> -> vector<16x8xf32>
      tile.store %t, %or[%first, %c0] : vector<16x8xf32>, !tile.rows<vector<8xf32>>
    }
    tile.end
  }
  check.expect_equal %o, %r : tensor<2x70x2x8xf32>
  return
}
