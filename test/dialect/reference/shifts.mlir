// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s | ejk-opt --canonicalize --cse --ejk-interpret=precision=native
// Rows of other steps: before, inside and after sequences, which are shorter than the shift or not.

func.func @earlier() {
  %x = arith.constant dense<[[[1.0], [2.0], [3.0], [4.0]], [[5.0], [6.0], [7.0], [8.0]]]> : tensor<2x4x1xf32>
  %0 = ejk.shift %x by 1 : tensor<2x4x1xf32>
  %e0 = arith.constant dense<[[[0.0], [1.0], [2.0], [3.0]], [[0.0], [5.0], [6.0], [7.0]]]> : tensor<2x4x1xf32>
  check.expect_equal %0, %e0 : tensor<2x4x1xf32>
  %1 = ejk.shift %x by 6 : tensor<2x4x1xf32>
  %e1 = arith.constant dense<0.0> : tensor<2x4x1xf32>
  check.expect_equal %1, %e1 : tensor<2x4x1xf32>
  // The halo's last row is the sequence's predecessor.
  %h = arith.constant dense<[[[-3.0], [-2.0], [-1.0]], [[-30.0], [-20.0], [-10.0]]]> : tensor<2x3x1xf32>
  %2 = ejk.shift %x by 2 halo(%h : tensor<2x3x1xf32>) : tensor<2x4x1xf32>
  %e2 = arith.constant dense<[[[-2.0], [-1.0], [1.0], [2.0]], [[-20.0], [-10.0], [5.0], [6.0]]]> : tensor<2x4x1xf32>
  check.expect_equal %2, %e2 : tensor<2x4x1xf32>
  return
}

func.func @later() {
  %x = arith.constant dense<[[[1.0], [2.0], [3.0], [4.0]]]> : tensor<1x4x1xf32>
  %0 = ejk.shift %x by -3 : tensor<1x4x1xf32>
  %e0 = arith.constant dense<[[[4.0], [0.0], [0.0], [0.0]]]> : tensor<1x4x1xf32>
  check.expect_equal %0, %e0 : tensor<1x4x1xf32>
  // The halo's first row is the sequence's successor.
  %h = arith.constant dense<[[[10.0], [20.0], [30.0]]]> : tensor<1x3x1xf32>
  %1 = ejk.shift %x by -2 halo(%h : tensor<1x3x1xf32>) : tensor<1x4x1xf32>
  %e1 = arith.constant dense<[[[3.0], [4.0], [10.0], [20.0]]]> : tensor<1x4x1xf32>
  check.expect_equal %1, %e1 : tensor<1x4x1xf32>
  %2 = ejk.shift zeros %x by -2 halo(%h : tensor<1x3x1xf32>) : tensor<1x4x1xf32>
  %e2 = arith.constant dense<[[[0.0], [0.0], [10.0], [20.0]]]> : tensor<1x4x1xf32>
  check.expect_equal %2, %e2 : tensor<1x4x1xf32>
  return
}

// No row crosses from one packed sequence to another; one is empty, one shorter than the shift, and
// the last row is in none.
func.func @packed() {
  %x = arith.constant dense<[[[1.0], [2.0], [3.0], [4.0], [5.0]]]> : tensor<1x5x1xf32>
  %cu = arith.constant dense<[0, 1, 1, 4]> : tensor<4xi32>
  %0 = ejk.shift %x by 2 cu_seqlens(%cu : tensor<4xi32>) : tensor<1x5x1xf32>
  %e0 = arith.constant dense<[[[0.0], [0.0], [0.0], [2.0], [0.0]]]> : tensor<1x5x1xf32>
  check.expect_equal %0, %e0 : tensor<1x5x1xf32>
  %h = arith.constant dense<[[[-2.0], [-1.0]], [[-20.0], [-10.0]], [[-200.0], [-100.0]]]> : tensor<3x2x1xf32>
  %1 = ejk.shift %x by 2 halo(%h : tensor<3x2x1xf32>) cu_seqlens(%cu : tensor<4xi32>) : tensor<1x5x1xf32>
  %e1 = arith.constant dense<[[[-2.0], [-200.0], [-100.0], [2.0], [0.0]]]> : tensor<1x5x1xf32>
  check.expect_equal %1, %e1 : tensor<1x5x1xf32>
  %2 = ejk.last_rows %x halo(%h : tensor<3x2x1xf32>) cu_seqlens(%cu : tensor<4xi32>) : tensor<1x5x1xf32> -> tensor<3x2x1xf32>
  %e2 = arith.constant dense<[[[-1.0], [1.0]], [[-20.0], [-10.0]], [[3.0], [4.0]]]> : tensor<3x2x1xf32>
  check.expect_equal %2, %e2 : tensor<3x2x1xf32>
  %3 = ejk.last_rows %x cu_seqlens(%cu : tensor<4xi32>) : tensor<1x5x1xf32> -> tensor<3x2x1xf32>
  %e3 = arith.constant dense<[[[0.0], [1.0]], [[0.0], [0.0]], [[3.0], [4.0]]]> : tensor<3x2x1xf32>
  check.expect_equal %3, %e3 : tensor<3x2x1xf32>
  return
}

func.func @last() {
  %x = arith.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>
  %h = arith.constant dense<[[[10.0], [20.0], [30.0]]]> : tensor<1x3x1xf32>
  %0 = ejk.last_rows %x halo(%h : tensor<1x3x1xf32>) : tensor<1x2x1xf32> -> tensor<1x3x1xf32>
  %e0 = arith.constant dense<[[[30.0], [1.0], [2.0]]]> : tensor<1x3x1xf32>
  check.expect_equal %0, %e0 : tensor<1x3x1xf32>
  %1 = ejk.last_rows reverse %x halo(%h : tensor<1x3x1xf32>) : tensor<1x2x1xf32> -> tensor<1x3x1xf32>
  %e1 = arith.constant dense<[[[1.0], [2.0], [10.0]]]> : tensor<1x3x1xf32>
  check.expect_equal %1, %e1 : tensor<1x3x1xf32>
  %2 = ejk.last_rows %x beyond 2 : tensor<1x2x1xf32> -> tensor<1x3x1xf32>
  %e2 = arith.constant dense<[[[2.0], [0.0], [0.0]]]> : tensor<1x3x1xf32>
  check.expect_equal %2, %e2 : tensor<1x3x1xf32>
  %3 = ejk.last_rows reverse %x beyond 1 : tensor<1x2x1xf32> -> tensor<1x3x1xf32>
  %e3 = arith.constant dense<[[[0.0], [1.0], [2.0]]]> : tensor<1x3x1xf32>
  check.expect_equal %3, %e3 : tensor<1x3x1xf32>
  %4 = ejk.last_rows reverse zeros %x halo(%h : tensor<1x3x1xf32>) : tensor<1x2x1xf32> -> tensor<1x3x1xf32>
  %e4 = arith.constant dense<[[[0.0], [0.0], [10.0]]]> : tensor<1x3x1xf32>
  check.expect_equal %4, %e4 : tensor<1x3x1xf32>
  return
}
