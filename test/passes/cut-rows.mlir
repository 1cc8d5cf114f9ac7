// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-cut-rows | FileCheck %s
// RUN: ejk-opt %s --ejk-cut-rows --ejk-interpret -o /dev/null

// Rotated keys, and queries times rows in f32, against rows that were rotated before.
// CHECK-LABEL: func.func @rotated
// CHECK:         %[[ROWS:.*]]:2 = ejk.scan
// CHECK-NOT:       states
// CHECK:           ejk.rotate_half
// CHECK:           ejk.yield outputs(%{{.*}}, %{{.*}} : vector<4xf32>, vector<4xf32>)
// CHECK:         ejk.scan
// CHECK-NOT:       ejk.rotate_half
// CHECK:           ejk.yield states
func.func @rotated() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xbf16>
  %k = check.random normal seed 2 : tensor<2x9x2x4xbf16>
  %v = check.random normal seed 3 : tensor<2x9x2x3xbf16>
  %c = check.random normal seed 4 : tensor<2x9x2x4xf32>
  %g = check.random log_gate seed 5 : tensor<2x9x2xf32>
  %a, %St = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xbf16>, %kt = %k : tensor<2x9x2x4xbf16>, %vt = %v : tensor<2x9x2x3xbf16>,
                %ct = %c : tensor<2x9x2x4xf32>, %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %kh = ejk.rotate_half %kw : vector<4xf32>
    %kr = arith.addf %kw, %kh : vector<4xf32>
    %qc = arith.mulf %qw, %ct : vector<4xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kr, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %r = ejk.read %S2, %qc along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  %rows:2 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xbf16>, %kt = %k : tensor<2x9x2x4xbf16>, %ct = %c : tensor<2x9x2x4xf32>)
      -> (tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %kh = ejk.rotate_half %kw : vector<4xf32>
    %kr = arith.addf %kw, %kh : vector<4xf32>
    %qc = arith.mulf %qw, %ct : vector<4xf32>
    ejk.yield outputs(%kr, %qc : vector<4xf32>, vector<4xf32>)
  }
  %b, %Rt = ejk.scan
      sequences(%qt = %rows#1 : tensor<2x9x2x4xf32>, %kt = %rows#0 : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x3xbf16>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %r = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  check.expect_close %a, %b max_relative 1.0e-13 : tensor<2x9x2x3xf32>
  return
}

// Rows of f32 alone are not rounded, and neither is what depends on a read.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-1: ejk.scan
// CHECK-NOT:   ejk.scan
func.func @stays(%k: tensor<?x?x?x4xf32>, %q: tensor<?x?x?x4xbf16>) -> tensor<?x?x?x4xf32> {
  %o, %St = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>, %qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %kh = ejk.rotate_half %kt : vector<4xf32>
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %S1 = ejk.outer_add %S, %kh, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qw along key : vector<4x4xf32>, vector<4xf32>
    %rk = arith.mulf %r, %kt : vector<4xf32>
    %p = ejk.read %S1, %rk along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%p : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}
