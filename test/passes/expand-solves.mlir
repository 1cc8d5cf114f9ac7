// RUN: ejk-opt %s --ejk-expand-solves | FileCheck %s
// In f64, where nothing is rounded to 16 bits, both are exact; in a kernel's rounding the expanded
// one is off by what two bf16 terms leave.
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-expand-solves --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-expand-solves | sed 's/max_relative [^ ]*/max_relative 1.0e-4/' \
// RUN:   | ejk-opt --ejk-interpret=precision=native

// Two blocks of 32 rows: the first is multiplied by its inverse, and the second by its own after
// what the first gives it is added. A transposed system begins with the last block.
// CHECK-LABEL: func.func @two_blocks
// CHECK: tile.mask lower strict
// CHECK: %[[L:.*]] = tile.mask lower strict
// CHECK: %[[R:.*]] = tile.invert_diagonal %[[L]] blocks 8
// CHECK: %[[S:.*]] = tile.merge_inverses %[[R]] blocks 8
// CHECK: %[[A:.*]] = tile.merge_inverses %[[S]] blocks 16
// CHECK: %[[A1:.*]] = arith.truncf %[[A]]
// A matmul of two terms each is three.
// CHECK: %[[X_A:.*]] = tile.dot %[[A1]], %[[B2:.*]], %[[B:.*]] over [0, 32] rows [0, 32]
// CHECK: %[[X_B:.*]] = tile.dot %[[A2:.*]], %[[B1:.*]], %[[X_A]] over [0, 32] rows [0, 32]
// CHECK: %[[X:.*]] = tile.dot %[[A1]], %[[B1]], %[[X_B]] over [0, 32] rows [0, 32]
// CHECK: %[[X1:.*]] = arith.truncf %[[X]]
// CHECK: tile.dot %[[A1]], %{{.*}}, %[[X]] over [0, 32] rows [32, 64]
// CHECK-COUNT-2: tile.dot {{.*}} over [0, 32] rows [32, 64]
// CHECK-COUNT-3: tile.dot {{.*}} over [32, 64] rows [32, 64]
// CHECK-NOT: tile.solve
// CHECK-COUNT-3: tile.dot %{{.*}} transposed, {{.*}} over [32, 64] rows [32, 64]
// CHECK-COUNT-3: tile.dot %{{.*}} transposed, {{.*}} over [32, 64] rows [0, 32]
// CHECK-COUNT-3: tile.dot %{{.*}} transposed, {{.*}} over [0, 32] rows [0, 32]
func.func @two_blocks() {
  %m = check.random uniform seed 1 : tensor<1x64x1x64xf32>
  %b = check.random normal seed 2 : tensor<1x64x1x32xf32>
  %x, %again, %y, %back = tile.program chunk 64 slices 1 sequences(%m, %b : tensor<1x64x1x64xf32>, tensor<1x64x1x32xf32>)
      outputs(tensor<1x64x1x32xf32>, tensor<1x64x1x32xf32>, tensor<1x64x1x32xf32>, tensor<1x64x1x32xf32>) {
  ^bb0(%mr: !tile.rows<vector<64xf32>>, %br: !tile.rows<vector<32xf32>>, %xr: !tile.rows<vector<32xf32>>,
       %ar: !tile.rows<vector<32xf32>>, %yr: !tile.rows<vector<32xf32>>, %rr: !tile.rows<vector<32xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %mt = tile.load %mr[%c0, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %bt = tile.load %br[%c0, %c0] : !tile.rows<vector<32xf32>> -> vector<64x32xf32>
    // Of the matrix of nearly parallel keys: every number from -0.9 to -1.
    %few = arith.constant dense<0.1> : vector<64x64xf32>
    %one = arith.constant dense<1.0> : vector<64x64xf32>
    %small = arith.mulf %mt, %few : vector<64x64xf32>
    %matrix = arith.subf %small, %one : vector<64x64xf32>
    %lower = tile.mask lower strict %matrix else 0.0 : vector<64x64xf32>
    %xt = tile.solve %matrix, %bt : vector<64x64xf32>, vector<64x32xf32>
    %at = tile.dot %lower, %xt, %bt : vector<64x64xf32>, vector<64x32xf32>, vector<64x32xf32>
    %yt = tile.solve transposed %matrix, %bt : vector<64x64xf32>, vector<64x32xf32>
    %rt = tile.dot %lower transposed, %yt, %bt : vector<64x64xf32>, vector<64x32xf32>, vector<64x32xf32>
    tile.store %xt, %xr[%c0, %c0] : vector<64x32xf32>, !tile.rows<vector<32xf32>>
    tile.store %at, %ar[%c0, %c0] : vector<64x32xf32>, !tile.rows<vector<32xf32>>
    tile.store %yt, %yr[%c0, %c0] : vector<64x32xf32>, !tile.rows<vector<32xf32>>
    tile.store %rt, %rr[%c0, %c0] : vector<64x32xf32>, !tile.rows<vector<32xf32>>
    tile.end
  }
  // X = rhs + L X is what a solve is.
  check.expect_close %x, %again max_relative 1.0e-6 : tensor<1x64x1x32xf32>
  check.expect_close %y, %back max_relative 1.0e-6 : tensor<1x64x1x32xf32>
  return
}

// Five blocks of 16 rows, which 32 does not divide.
// CHECK-LABEL: func.func @five_blocks
// CHECK-COUNT-3: tile.dot {{.*}} over [0, 16] rows [0, 16]
// CHECK-COUNT-3: tile.dot {{.*}} over [0, 16] rows [16, 32]
// CHECK-COUNT-3: tile.dot {{.*}} over [16, 32] rows [16, 32]
// CHECK-COUNT-3: tile.dot {{.*}} over [0, 32] rows [32, 48]
// CHECK-COUNT-3: tile.dot {{.*}} over [32, 48] rows [32, 48]
// CHECK-COUNT-3: tile.dot {{.*}} over [0, 48] rows [48, 64]
// CHECK-COUNT-3: tile.dot {{.*}} over [48, 64] rows [48, 64]
// CHECK-COUNT-3: tile.dot {{.*}} over [0, 64] rows [64, 80]
// CHECK-COUNT-3: tile.dot {{.*}} over [64, 80] rows [64, 80]
// CHECK-NOT: tile.solve
func.func @five_blocks() {
  %m = check.random uniform seed 4 : tensor<1x80x1x80xf32>
  %x, %again = tile.program chunk 80 slices 1 sequences(%m : tensor<1x80x1x80xf32>)
      outputs(tensor<1x80x1x80xf32>, tensor<1x80x1x80xf32>) {
  ^bb0(%mr: !tile.rows<vector<80xf32>>, %xr: !tile.rows<vector<80xf32>>, %ar: !tile.rows<vector<80xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %mt = tile.load %mr[%c0, %c0] : !tile.rows<vector<80xf32>> -> vector<80x80xf32>
    %few = arith.constant dense<0.1> : vector<80x80xf32>
    %one = arith.constant dense<1.0> : vector<80x80xf32>
    %small = arith.mulf %mt, %few : vector<80x80xf32>
    %matrix = arith.subf %small, %one : vector<80x80xf32>
    %lower = tile.mask lower strict %matrix else 0.0 : vector<80x80xf32>
    %xt = tile.solve %matrix, %mt : vector<80x80xf32>, vector<80x80xf32>
    %at = tile.dot %lower, %xt, %mt : vector<80x80xf32>, vector<80x80xf32>, vector<80x80xf32>
    tile.store %xt, %xr[%c0, %c0] : vector<80x80xf32>, !tile.rows<vector<80xf32>>
    tile.store %at, %ar[%c0, %c0] : vector<80x80xf32>, !tile.rows<vector<80xf32>>
    tile.end
  }
  check.expect_close %x, %again max_relative 1.0e-6 : tensor<1x80x1x80xf32>
  return
}

// One block has no matmul but the last.
// CHECK-LABEL: func.func @one_block
// CHECK: tile.invert_diagonal
// CHECK-NOT: tile.merge_inverses
// CHECK-COUNT-3: tile.dot
// CHECK-NOT: tile.dot
// CHECK: tile.store
func.func @one_block() {
  %m = check.random normal seed 3 : tensor<1x16x1x16xf32>
  %x, %e = tile.program chunk 16 slices 1 sequences(%m : tensor<1x16x1x16xf32>)
      outputs(tensor<1x16x1x16xf32>, tensor<1x16x1x16xf32>) {
  ^bb0(%mr: !tile.rows<vector<16xf32>>, %xr: !tile.rows<vector<16xf32>>, %er: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %mt = tile.load %mr[%c0, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %few = arith.constant dense<0.25> : vector<16x16xf32>
    %matrix = arith.mulf %mt, %few : vector<16x16xf32>
    %xt = tile.solve %matrix, %mt : vector<16x16xf32>, vector<16x16xf32>
    tile.store %xt, %xr[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    %r = tile.invert_diagonal %matrix blocks 16 : vector<16x16xf32>
    %et = tile.dot %r, %mt, %mt : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    tile.store %et, %er[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  check.expect_close %x, %e max_relative 1.0e-6 : tensor<1x16x1x16xf32>
  return
}

// Blocks of 8 rows, merged to 16 and to 32: the same inverse as by substitution.
// CHECK-LABEL: func.func @merged
func.func @merged() {
  %m = check.random uniform seed 5 : tensor<1x64x1x64xf32>
  %x, %e = tile.program chunk 64 slices 1 sequences(%m : tensor<1x64x1x64xf32>)
      outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%mr: !tile.rows<vector<64xf32>>, %xr: !tile.rows<vector<64xf32>>, %er: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %mt = tile.load %mr[%c0, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %few = arith.constant dense<0.1> : vector<64x64xf32>
    %one = arith.constant dense<1.0> : vector<64x64xf32>
    %small = arith.mulf %mt, %few : vector<64x64xf32>
    %near = arith.subf %small, %one : vector<64x64xf32>
    %matrix = tile.mask lower strict %near else 0.0 : vector<64x64xf32>
    %x8 = tile.invert_diagonal %matrix blocks 8 : vector<64x64xf32>
    %x16 = tile.merge_inverses %x8 blocks 8 : vector<64x64xf32>
    %x32 = tile.merge_inverses %x16 blocks 16 : vector<64x64xf32>
    tile.store %x32, %xr[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    %et = tile.invert_diagonal %matrix blocks 32 : vector<64x64xf32>
    tile.store %et, %er[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  check.expect_close %x, %e max_relative 1.0e-6 : tensor<1x64x1x64xf32>
  return
}
