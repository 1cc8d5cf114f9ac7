// RUN: ejk-opt %s --ejk-interpret
// Small integers: every sum is exact.

func.func @sum() {
  %x = arith.constant dense<[[[[1.0, 2.0, 4.0]]], [[[8.0, -16.0, 32.0]]]]> : tensor<2x1x1x3xf32>
  %found = ejk.scan sequences(%xt = %x : tensor<2x1x1x3xf32>) -> (tensor<2x1x1xf32>) {
    %s = ejk.sum %xt : vector<3xf32>
    ejk.yield outputs(%s : f32)
  }
  %expected = arith.constant dense<[[[7.0]], [[24.0]]]> : tensor<2x1x1xf32>
  check.expect_equal %found, %expected : tensor<2x1x1xf32>
  return
}

// Neighbouring heads share one, as h / (H/H') has it.
func.func @sum_heads() {
  %x = arith.constant dense<[[[1.0, 2.0], [4.0, 8.0], [16.0, 32.0], [64.0, 128.0]]]> : tensor<1x4x2xf32>
  %like = arith.constant dense<0.0> : tensor<1x2x2xf32>
  %found = ejk.sum_heads %x along 1 like %like : tensor<1x4x2xf32>, tensor<1x2x2xf32> -> tensor<1x2x2xf32>
  %expected = arith.constant dense<[[[5.0, 10.0], [80.0, 160.0]]]> : tensor<1x2x2xf32>
  check.expect_equal %found, %expected : tensor<1x2x2xf32>
  return
}
