// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s | ejk-opt --ejk-interpret
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt --ejk-interpret

// Two sequences of five rows in segments of two. Their slots are 0 to 2 and ⌊5/2⌋ + 1 = 3 to 5; slot c holds what
// chunk c ends with.
func.func @batch() {
  %x = arith.constant dense<[[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]], [[[5.0]]], [[[6.0]]], [[[7.0]]]]> : tensor<7x1x1x1xf32>
  %h0 = arith.constant dense<[[[[10.0]]], [[[20.0]]]]> : tensor<2x1x1x1xf32>
  %v = arith.constant dense<0.0> : tensor<2x5x1x1xf32>
  %on = ejk.segment_starts %x every 2 from %h0 : tensor<2x1x1x1xf32> like %v
      : tensor<7x1x1x1xf32>, tensor<2x5x1x1xf32> -> tensor<6x1x1x1xf32>
  %eon = arith.constant dense<[[[[10.0]]], [[[1.0]]], [[[2.0]]], [[[20.0]]], [[[4.0]]], [[[5.0]]]]> : tensor<6x1x1x1xf32>
  check.expect_equal %on, %eon : tensor<6x1x1x1xf32>
  %back = ejk.segment_starts reverse %x every 2 like %v
      : tensor<7x1x1x1xf32>, tensor<2x5x1x1xf32> -> tensor<6x1x1x1xf32>
  %eback = arith.constant dense<[[[[2.0]]], [[[3.0]]], [[[0.0]]], [[[5.0]]], [[[6.0]]], [[[0.0]]]]> : tensor<6x1x1x1xf32>
  check.expect_equal %back, %eback : tensor<6x1x1x1xf32>
  return
}

// Of 3, 0 and 2 rows: slots 0 and 1, none, and ⌊3/2⌋ + 2 = 3. No sequence has segment 2 or 4.
func.func @packed() {
  %x = arith.constant dense<[[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]], [[[5.0]]]]> : tensor<5x1x1x1xf32>
  %h0 = arith.constant dense<[[[[10.0]]], [[[20.0]]], [[[30.0]]]]> : tensor<3x1x1x1xf32>
  %cu = arith.constant dense<[0, 3, 3, 5]> : tensor<4xi64>
  %v = arith.constant dense<0.0> : tensor<1x5x1x1xf32>
  %on = ejk.segment_starts %x every 2 from %h0 : tensor<3x1x1x1xf32> cu_seqlens(%cu : tensor<4xi64>) like %v
      : tensor<5x1x1x1xf32>, tensor<1x5x1x1xf32> -> tensor<5x1x1x1xf32>
  %eon = arith.constant dense<[[[[10.0]]], [[[1.0]]], [[[0.0]]], [[[30.0]]], [[[0.0]]]]> : tensor<5x1x1x1xf32>
  check.expect_equal %on, %eon : tensor<5x1x1x1xf32>
  %back = ejk.segment_starts reverse %x every 2 from %h0 : tensor<3x1x1x1xf32> cu_seqlens(%cu : tensor<4xi64>) like %v
      : tensor<5x1x1x1xf32>, tensor<1x5x1x1xf32> -> tensor<5x1x1x1xf32>
  %eback = arith.constant dense<[[[[2.0]]], [[[10.0]]], [[[0.0]]], [[[30.0]]], [[[0.0]]]]> : tensor<5x1x1x1xf32>
  check.expect_equal %back, %eback : tensor<5x1x1x1xf32>
  return
}
