// RUN: ejk-opt %s --ejk-split-sums --canonicalize | FileCheck %s
// RUN: ejk-opt %s --ejk-split-sums --canonicalize --ejk-interpret
// RUN: ejk-opt %s --ejk-split-sums=above=15 --canonicalize | FileCheck %s --check-prefix=WIDE
// RUN: ejk-opt %s --ejk-split-sums=above=16 | FileCheck %s --check-prefix=WHOLE

// The summands leave the scan, a plain op sums them, and what follows needs no
// K×V state: it takes the read as a sequence.
// WIDE-LABEL: func.func @normalised(
// WIDE: ejk.scan
// WIDE: linalg.generic
// WIDE: ejk.scan
// WHOLE-LABEL: func.func @normalised(
// WHOLE-NOT: linalg.generic
// WHOLE: ejk.sum
// CHECK-LABEL: func.func @normalised(
// CHECK:         %[[FIRST:.*]]:2, %{{.*}} = ejk.scan
// CHECK:           ejk.read
// CHECK-NOT:       ejk.sum
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[FIRST]]#
// CHECK:         ejk.scan
// CHECK:           %[[SQUARE:arg[0-9]+]] = %[[SUM]] : tensor<2x5x3xf32>
// CHECK-NOT:       states
// CHECK-NOT:       ejk.read
// CHECK:           math.rsqrt %[[SQUARE]]
func.func @normalised(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %rr = arith.mulf %r, %r : vector<4xf32>
    %square = ejk.sum %rr : vector<4xf32>
    %factor = math.rsqrt %square : f32
    %f = vector.broadcast %factor : f32 to vector<4xf32>
    %ot = arith.mulf %r, %f : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x5x3x4xf32>
}

// Each row has norm 1.
func.func @check_normalised() {
  %q = check.random normal seed 1 : tensor<2x5x3x4xf32>
  %k = check.random normal seed 2 : tensor<2x5x3x4xf32>
  %o = func.call @normalised(%q, %k)
      : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  %zero = arith.constant dense<0.0> : tensor<2x5x3xf32>
  %one = arith.constant dense<1.0> : tensor<2x5x3xf32>
  %norm = linalg.generic {
      indexing_maps = [affine_map<(b, t, h, c) -> (b, t, h, c)>,
                       affine_map<(b, t, h, c) -> (b, t, h)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%o : tensor<2x5x3x4xf32>) outs(%zero : tensor<2x5x3xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %xx = arith.mulf %x, %x : f32
    %s = arith.addf %sum, %xx : f32
    linalg.yield %s : f32
  } -> tensor<2x5x3xf32>
  // Rounding in f64.
  check.expect_close %norm, %one max_relative 1.0e-14 : tensor<2x5x3xf32>
  return
}
