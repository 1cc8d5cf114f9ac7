// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// A gate's gradient is zero where the gate is -inf, and in the row it is told.

func.func @vector() {
  %m = arith.constant dense<[[[[1.0, 2.0]], [[4.0, 8.0]], [[16.0, 32.0]]]]> : tensor<1x3x1x2xf32>
  %gate = arith.constant dense<[[[[0.0, -1.0]], [[0xFF800000, -1.0e30]], [[-2.0, 0xFF800000]]]]> : tensor<1x3x1x2xf32>
  %found = ejk.scan sequences(%mt = %m : tensor<1x3x1x2xf32>, %gt = %gate : tensor<1x3x1x2xf32>) -> (tensor<1x3x1x2xf32>) {
    %d = ejk.gate_gradient %mt of %gt zero_first : vector<2xf32>, vector<2xf32>
    ejk.yield outputs(%d : vector<2xf32>)
  }
  %expected = arith.constant dense<[[[[0.0, 0.0]], [[0.0, 8.0]], [[16.0, 0.0]]]]> : tensor<1x3x1x2xf32>
  check.expect_equal %found, %expected : tensor<1x3x1x2xf32>
  return
}

// Rows count, not the walk's direction; each packed sequence has its own.
func.func @number() {
  %m = arith.constant dense<[[[1.0], [2.0], [4.0], [8.0]]]> : tensor<1x4x1xf32>
  %gate = arith.constant dense<-1.0> : tensor<1x4x1xf32>
  %cu = arith.constant dense<[0, 3, 4]> : tensor<3xi32>
  %found = ejk.scan reverse cu_seqlens(%cu : tensor<3xi32>)
      sequences(%mt = %m : tensor<1x4x1xf32>, %gt = %gate : tensor<1x4x1xf32>) -> (tensor<1x4x1xf32>) {
    %d = ejk.gate_gradient %mt of %gt zero_last : f32, f32
    ejk.yield outputs(%d : f32)
  }
  %expected = arith.constant dense<[[[1.0], [2.0], [0.0], [0.0]]]> : tensor<1x4x1xf32>
  check.expect_equal %found, %expected : tensor<1x4x1xf32>
  return
}
