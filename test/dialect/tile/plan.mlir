// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=precision=native
// The ops of a plan: what orders accesses to shared memory changes no number, and the parts of cumsums and sums add up.

func.func @plan() {
  %q = arith.constant dense<1.0> : tensor<1x4x1x4xf32>
  %o = tile.program chunk 4 slices 1 sequences(%q : tensor<1x4x1x4xf32>) outputs(tensor<1x4x1x4xf32>) {
  ^bb0(%qr: !tile.rows<vector<4xf32>>, %or: !tile.rows<vector<4xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<4x4xf32>
    // CHECK: tile.make_ring tma at 1024 mbarriers 0 : <2 of vector<4x4xf32>>
    %ring = tile.make_ring tma at 1024 mbarriers 0 : !tile.ring<2 of vector<4x4xf32>>
    %x = tile.load %qr[%c0, %c0] : !tile.rows<vector<4xf32>> -> vector<4x4xf32>
    // CHECK: tile.convert %{{.*}} to <shared at 8192 or 24576>
    %y = tile.convert %x to <shared at 8192 or 24576> : vector<4x4xf32>
    // CHECK: tile.fence
    // CHECK-NEXT: tile.wait_matmuls 1
    // CHECK-NEXT: tile.wait_copies 2
    // CHECK-NEXT: tile.wait_stores 0
    // CHECK-NEXT: tile.barrier
    tile.fence
    tile.wait_matmuls 1
    tile.wait_copies 2
    tile.wait_stores 0
    tile.barrier
    // CHECK: tile.split_term %{{.*}} : vector<4x4xf32> -> vector<4x4xbf16>
    %t, %rest = tile.split_term %y : vector<4x4xf32> -> vector<4x4xbf16>
    // CHECK: %[[T:.*]] = tile.triangle reverse exclusive from 3 : vector<4x4xbf16>
    %triangle = tile.triangle reverse exclusive from 3 : vector<4x4xbf16>
    // CHECK: tile.add_cumsum reverse exclusive %{{.*}} to %{{.*}} by %[[T]] from 3 : vector<4x4xbf16>, vector<4x4xf32>, vector<4x4xbf16>
    %a = tile.add_cumsum reverse exclusive %t to %zero by %triangle from 3
        : vector<4x4xbf16>, vector<4x4xf32>, vector<4x4xbf16>
    // CHECK: tile.cumsum reverse exclusive %{{.*}} from 3 by %[[T]] : vector<4x4xf32>, vector<4x4xbf16>
    %b = tile.cumsum reverse exclusive %x from 3 by %triangle : vector<4x4xf32>, vector<4x4xbf16>
    // a[i] = 3 - i, and so is b[i].
    %d = arith.subf %a, %b : vector<4x4xf32>
    %one = arith.addf %d, %y : vector<4x4xf32>
    // CHECK: tile.partial_sum %{{.*}} over 1 : vector<4x4xf32> -> vector<8xf32>
    %p = tile.partial_sum %one over 1 : vector<4x4xf32> -> vector<8xf32>
    // CHECK: tile.add_parts %{{.*}} : vector<8xf32> -> vector<4xf32>
    %s = tile.add_parts %p : vector<8xf32> -> vector<4xf32>
    %quarter = arith.constant dense<0.25> : vector<4xf32>
    %mean = arith.mulf %s, %quarter : vector<4xf32>
    %m = tile.broadcast %mean along 0 : vector<4xf32> -> vector<4x4xf32>
    %r = arith.addf %m, %rest : vector<4x4xf32>
    // CHECK: tile.store bulk
    tile.store bulk %r, %or[%c0, %c0] : vector<4x4xf32>, !tile.rows<vector<4xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x4x1x4xf32>
  return
}

// The terms of a number whose bits go beyond bf16's, and a triangle that is the matrix of a cumsum.
func.func @terms() {
  %q = arith.constant dense<[[[[1.00390625, 2.0]], [[3.0, 4.0]]]]> : tensor<1x2x1x2xf32>
  %o = tile.program chunk 2 slices 1 sequences(%q : tensor<1x2x1x2xf32>) outputs(tensor<1x2x1x2xf32>) {
  ^bb0(%qr: !tile.rows<vector<2xf32>>, %or: !tile.rows<vector<2xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<2x2xf32>
    %x = tile.load %qr[%c0, %c0] : !tile.rows<vector<2xf32>> -> vector<2x2xf32>
    %t0, %r0 = tile.split_term %x : vector<2x2xf32> -> vector<2x2xbf16>
    %t1, %r1 = tile.split_term %r0 : vector<2x2xf32> -> vector<2x2xbf16>
    %s0 = tile.add_cumsum %t0 to %zero : vector<2x2xbf16>, vector<2x2xf32>
    %s1 = tile.add_cumsum %t1 to %s0 : vector<2x2xbf16>, vector<2x2xf32>
    %tri = tile.triangle : vector<2x2xbf16>
    %p0 = tile.dot %tri, %t0, %zero : vector<2x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>
    %p1 = tile.dot %tri, %t1, %p0 : vector<2x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>
    %d = arith.subf %s1, %p1 : vector<2x2xf32>
    %e = arith.addf %s1, %d : vector<2x2xf32>
    tile.store %e, %or[%c0, %c0] : vector<2x2xf32>, !tile.rows<vector<2xf32>>
    tile.end
  }
  %e = arith.constant dense<[[[[1.00390625, 2.0]], [[4.00390625, 6.0]]]]> : tensor<1x2x1x2xf32>
  check.expect_equal %o, %e : tensor<1x2x1x2xf32>
  return
}
