// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s | ejk-opt --ejk-interpret
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt --ejk-interpret

// Two sequences of two segments: S = M S + X, by hand. The second sequence has transitions of zero.
func.func @batch() {
  %x = arith.constant dense<[[[[1.0], [2.0]]], [[[3.0], [4.0]]], [[[5.0], [6.0]]], [[[7.0], [8.0]]]]> : tensor<4x1x2x1xf32>
  %m = arith.constant dense<[[[[1.0, 2.0], [0.0, 1.0]]], [[[0.0, 1.0], [1.0, 0.0]]],
                             [[[0.0, 0.0], [0.0, 0.0]]], [[[0.0, 0.0], [0.0, 0.0]]]]> : tensor<4x1x2x2xf32>
  %h0 = arith.constant dense<[[[[10.0], [20.0]]], [[[30.0], [40.0]]]]> : tensor<2x1x2x1xf32>
  %v = arith.constant dense<0.0> : tensor<2x9x1x1xf32>
  %starts, %end = ejk.combine_segments %x by %m from %h0 : tensor<2x1x2x1xf32> like %v
      : tensor<4x1x2x1xf32>, tensor<4x1x2x2xf32>, tensor<2x9x1x1xf32> -> tensor<4x1x2x1xf32>, tensor<2x1x2x1xf32>
  %es = arith.constant dense<[[[[10.0], [20.0]]], [[[51.0], [22.0]]], [[[30.0], [40.0]]], [[[5.0], [6.0]]]]> : tensor<4x1x2x1xf32>
  %ee = arith.constant dense<[[[[25.0], [55.0]]], [[[7.0], [8.0]]]]> : tensor<2x1x2x1xf32>
  check.expect_equal %starts, %es : tensor<4x1x2x1xf32>
  check.expect_equal %end, %ee : tensor<2x1x2x1xf32>
  return
}

// From the last segment, with offsets: the first sequence has one segment, the second none, the third
// two.
func.func @packed() {
  %x = arith.constant dense<[[[[1.0]]], [[[2.0]]], [[[3.0]]]]> : tensor<3x1x1x1xf32>
  %m = arith.constant dense<[[[[10.0]]], [[[20.0]]], [[[30.0]]]]> : tensor<3x1x1x1xf32>
  %cu = arith.constant dense<[0, 1, 1, 3]> : tensor<4xi32>
  %v = arith.constant dense<0.0> : tensor<1x9x1x1xf32>
  %h0 = arith.constant dense<[[[[5.0]]], [[[6.0]]], [[[7.0]]]]> : tensor<3x1x1x1xf32>
  %starts, %end = ejk.combine_segments reverse %x by %m from %h0 : tensor<3x1x1x1xf32> offsets %cu : tensor<4xi32> like %v
      : tensor<3x1x1x1xf32>, tensor<3x1x1x1xf32>, tensor<1x9x1x1xf32> -> tensor<3x1x1x1xf32>, tensor<3x1x1x1xf32>
  %es = arith.constant dense<[[[[5.0]]], [[[213.0]]], [[[7.0]]]]> : tensor<3x1x1x1xf32>
  %ee = arith.constant dense<[[[[51.0]]], [[[6.0]]], [[[4262.0]]]]> : tensor<3x1x1x1xf32>
  check.expect_equal %starts, %es : tensor<3x1x1x1xf32>
  check.expect_equal %end, %ee : tensor<3x1x1x1xf32>
  return
}

// The second segment remembers nothing; nor does the first of head 1, whose transition is NaN. A NaN remembers.
func.func @remembered() {
  %x = arith.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]], [[[5.0]], [[6.0]]]]> : tensor<3x2x1x1xf32>
  %m = arith.constant dense<[[[[10.0]], [[0x7FC00000]]], [[[20.0]], [[20.0]]], [[[30.0]], [[30.0]]]]> : tensor<3x2x1x1xf32>
  %r = arith.constant dense<[[1.0, 0.5], [0.0, 9.0], [0x7FC00000, 2.0]]> : tensor<3x2xf32>
  %v = arith.constant dense<0.0> : tensor<1x9x2x1xf32>
  %h0 = arith.constant dense<7.0> : tensor<1x2x1x1xf32>
  %starts, %end = ejk.combine_segments %x by %m where(%r : tensor<3x2xf32>) from %h0 : tensor<1x2x1x1xf32> like %v
      : tensor<3x2x1x1xf32>, tensor<3x2x1x1xf32>, tensor<1x9x2x1xf32> -> tensor<3x2x1x1xf32>, tensor<1x2x1x1xf32>
  %es = arith.constant dense<[[[[7.0]], [[7.0]]], [[[71.0]], [[2.0]]], [[[3.0]], [[44.0]]]]> : tensor<3x2x1x1xf32>
  %ee = arith.constant dense<[[[[95.0]], [[1326.0]]]]> : tensor<1x2x1x1xf32>
  check.expect_equal %starts, %es : tensor<3x2x1x1xf32>
  check.expect_equal %end, %ee : tensor<1x2x1x1xf32>
  return
}
