// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-describe-interface --ejk-fold-own-heads --ejk-gather-shifts --canonicalize | FileCheck %s
// RUN: ejk-opt %s --ejk-describe-interface --ejk-fold-own-heads --ejk-gather-shifts --canonicalize --ejk-interpret -o /dev/null

// The derivative of a convolution of three taps, backwards, against the shifted rows themselves.
// CHECK-LABEL: func.func @taps
// CHECK:         %[[X:.*]] = ejk.scan reverse
// CHECK:           outputs(%{{.*}} : vector<5xf32>)
// CHECK-NOT:     ejk.sum_heads
// CHECK-DAG:     %[[X1:.*]] = ejk.shift %[[X]] by -1
// CHECK-DAG:     %[[X2:.*]] = ejk.shift %[[X]] by -2
// CHECK:         ejk.scan
// CHECK-NEXT:      sequences({{.*}} = %[[X]] : {{.*}} = %[[X1]] : {{.*}} = %[[X2]] :
// CHECK:           %[[SUM:.*]] = arith.addf
// CHECK:           %[[ROUNDED:.*]] = arith.truncf
// CHECK:           ejk.yield outputs(%[[ROUNDED]] : vector<5xbf16>)
func.func @taps() {
  %dy = check.random normal seed 1 : tensor<2x9x4x5xf32>
  %w0 = check.random normal seed 2 : tensor<2x5xf32>
  %w1 = check.random normal seed 3 : tensor<2x5xf32>
  %w2 = check.random normal seed 4 : tensor<2x5xf32>
  %x = check.random normal seed 5 : tensor<2x9x4x5xbf16>
  %a, %b, %c = ejk.scan reverse
      sequences(%t = %dy : tensor<2x9x4x5xf32>)
      parameters(%p0 = %w0 : tensor<2x5xf32> as vector<5xf32>, %p1 = %w1 : tensor<2x5xf32> as vector<5xf32>,
                 %p2 = %w2 : tensor<2x5xf32> as vector<5xf32>)
      -> (tensor<2x9x4x5xf32>, tensor<2x9x4x5xf32>, tensor<2x9x4x5xf32>) {
    %y = arith.mulf %t, %t : vector<5xf32>
    %y0 = arith.mulf %y, %p0 : vector<5xf32>
    %y1 = arith.mulf %p1, %y : vector<5xf32>
    %y2 = arith.mulf %y, %p2 : vector<5xf32>
    ejk.yield outputs(%y0, %y1, %y2 : vector<5xf32>, vector<5xf32>, vector<5xf32>)
  }
  %x1 = ejk.shift %x by 1 : tensor<2x9x4x5xbf16>
  %own = ejk.sum_heads %b along 2 like %x1 : tensor<2x9x4x5xf32>, tensor<2x9x4x5xbf16> -> tensor<2x9x4x5xf32>
  %b1 = ejk.shift %own by -1 : tensor<2x9x4x5xf32>
  %c2 = ejk.shift %c by -2 : tensor<2x9x4x5xf32>
  %ab = arith.addf %a, %b1 : tensor<2x9x4x5xf32>
  %sum = arith.addf %ab, %c2 : tensor<2x9x4x5xf32>
  %dx = arith.truncf %sum : tensor<2x9x4x5xf32> to tensor<2x9x4x5xbf16>

  %d1 = ejk.shift %dy by -1 : tensor<2x9x4x5xf32>
  %d2 = ejk.shift %dy by -2 : tensor<2x9x4x5xf32>
  %wanted = ejk.scan
      sequences(%t = %dy : tensor<2x9x4x5xf32>, %t1 = %d1 : tensor<2x9x4x5xf32>, %t2 = %d2 : tensor<2x9x4x5xf32>)
      parameters(%p0 = %w0 : tensor<2x5xf32> as vector<5xf32>, %p1 = %w1 : tensor<2x5xf32> as vector<5xf32>,
                 %p2 = %w2 : tensor<2x5xf32> as vector<5xf32>)
      -> (tensor<2x9x4x5xf32>) {
    %s0 = arith.mulf %t, %t : vector<5xf32>
    %s1 = arith.mulf %t1, %t1 : vector<5xf32>
    %s2 = arith.mulf %t2, %t2 : vector<5xf32>
    %y0 = arith.mulf %s0, %p0 : vector<5xf32>
    %y1 = arith.mulf %s1, %p1 : vector<5xf32>
    %y2 = arith.mulf %s2, %p2 : vector<5xf32>
    %y01 = arith.addf %y0, %y1 : vector<5xf32>
    %y = arith.addf %y01, %y2 : vector<5xf32>
    ejk.yield outputs(%y : vector<5xf32>)
  }
  %rounded = arith.truncf %wanted : tensor<2x9x4x5xf32> to tensor<2x9x4x5xbf16>
  check.expect_close %dx, %rounded max_relative 1.0e-13 : tensor<2x9x4x5xbf16>
  return
}

// A term that is no product with what is constant in time keeps the sum as it is.
// CHECK-LABEL: func.func @over_time
// CHECK:         ejk.shift
// CHECK:         arith.addf %{{.*}} : tensor<?x?x?x5xf32>
func.func @over_time(%dy: tensor<?x?x?x5xf32>) -> tensor<?x?x?x5xf32> {
  %a, %b = ejk.scan sequences(%t = %dy : tensor<?x?x?x5xf32>) -> (tensor<?x?x?x5xf32>, tensor<?x?x?x5xf32>) {
    %y = math.exp %t : vector<5xf32>
    %y0 = arith.mulf %y, %t : vector<5xf32>
    %y1 = arith.mulf %y, %y : vector<5xf32>
    ejk.yield outputs(%y0, %y1 : vector<5xf32>, vector<5xf32>)
  }
  %b1 = ejk.shift %b by -1 : tensor<?x?x?x5xf32>
  %sum = arith.addf %a, %b1 : tensor<?x?x?x5xf32>
  return %sum : tensor<?x?x?x5xf32>
}

// Two rows of one scan are not taps of one.
// CHECK-LABEL: func.func @two_rows
// CHECK:         ejk.shift
// CHECK:         arith.addf %{{.*}} : tensor<?x?x?x5xf32>
func.func @two_rows(%a: tensor<?x?x?x5xf32>, %b: tensor<?x?x?x5xf32>, %w0: tensor<?x5xf32>, %w1: tensor<?x5xf32>) -> tensor<?x?x?x5xf32> {
  %p, %q = ejk.scan sequences(%a_t = %a : tensor<?x?x?x5xf32>, %b_t = %b : tensor<?x?x?x5xf32>)
      parameters(%w0_h = %w0 : tensor<?x5xf32> as vector<5xf32>, %w1_h = %w1 : tensor<?x5xf32> as vector<5xf32>)
      -> (tensor<?x?x?x5xf32>, tensor<?x?x?x5xf32>) {
    %x = arith.mulf %a_t, %w0_h : vector<5xf32>
    %y = arith.mulf %b_t, %w1_h : vector<5xf32>
    ejk.yield outputs(%x, %y : vector<5xf32>, vector<5xf32>)
  }
  %q1 = ejk.shift %q by 1 : tensor<?x?x?x5xf32>
  %sum = arith.addf %p, %q1 : tensor<?x?x?x5xf32>
  return %sum : tensor<?x?x?x5xf32>
}

// Rows that come from a halo have not been multiplied in the scan: the sum stays as it is.
// CHECK-LABEL: func.func @halo
// CHECK:         ejk.shift %{{.*}} by 1 halo(
// CHECK:         arith.addf %{{.*}} : tensor<2x9x4x5xf32>
func.func @halo() {
  %x = check.random normal seed 1 : tensor<2x9x4x5xf32>
  %w0 = check.random normal seed 2 : tensor<2x5xf32>
  %w1 = check.random normal seed 3 : tensor<2x5xf32>
  %h = check.random normal seed 4 : tensor<2x1x4x5xf32>
  %a, %b = ejk.scan sequences(%t = %x : tensor<2x9x4x5xf32>)
      parameters(%p0 = %w0 : tensor<2x5xf32> as vector<5xf32>, %p1 = %w1 : tensor<2x5xf32> as vector<5xf32>)
      -> (tensor<2x9x4x5xf32>, tensor<2x9x4x5xf32>) {
    %y0 = arith.mulf %t, %p0 : vector<5xf32>
    %y1 = arith.mulf %t, %p1 : vector<5xf32>
    ejk.yield outputs(%y0, %y1 : vector<5xf32>, vector<5xf32>)
  }
  %b1 = ejk.shift %b by 1 halo(%h : tensor<2x1x4x5xf32>) : tensor<2x9x4x5xf32>
  %sum = arith.addf %a, %b1 : tensor<2x9x4x5xf32>

  // The sum in the step of another scan, of the rows and of the shifted products.
  %c = ejk.scan sequences(%t = %x : tensor<2x9x4x5xf32>)
      parameters(%p1 = %w1 : tensor<2x5xf32> as vector<5xf32>) -> (tensor<2x9x4x5xf32>) {
    %y1 = arith.mulf %t, %p1 : vector<5xf32>
    ejk.yield outputs(%y1 : vector<5xf32>)
  }
  %c1 = ejk.shift %c by 1 halo(%h : tensor<2x1x4x5xf32>) : tensor<2x9x4x5xf32>
  %wanted = ejk.scan sequences(%t = %x : tensor<2x9x4x5xf32>, %t1 = %c1 : tensor<2x9x4x5xf32>)
      parameters(%p0 = %w0 : tensor<2x5xf32> as vector<5xf32>) -> (tensor<2x9x4x5xf32>) {
    %y0 = arith.mulf %t, %p0 : vector<5xf32>
    %y = arith.addf %y0, %t1 : vector<5xf32>
    ejk.yield outputs(%y : vector<5xf32>)
  }
  check.expect_close %sum, %wanted max_relative 1.0e-13 : tensor<2x9x4x5xf32>
  return
}
