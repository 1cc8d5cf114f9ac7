// A key that is divided by its squared length is zero by infinity after the sequence's end, which is NaN. It is masked
// there, or the final state would be NaN.
// RUN: ejk-opt %s --ejk-chunk --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-chunk | FileCheck %s

// CHECK-LABEL: func.func @divided_keys
// CHECK:         tile.window
func.func @divided_keys() {
  %qs = check.random normal seed 1 : tensor<1x70x2x16xbf16>
  %qws = arith.extf %qs : tensor<1x70x2x16xbf16> to tensor<1x70x2x16xf32>
  %ks = check.random normal seed 2 : tensor<1x70x2x16xbf16>
  %kws = arith.extf %ks : tensor<1x70x2x16xbf16> to tensor<1x70x2x16xf32>
  %vs = check.random normal seed 3 : tensor<1x70x2x32xbf16>
  %vws = arith.extf %vs : tensor<1x70x2x32xbf16> to tensor<1x70x2x32xf32>
  %o, %ht = ejk.scan
      sequences(%qt = %qs : tensor<1x70x2x16xbf16>, %kt = %ks : tensor<1x70x2x16xbf16>, %vt = %vs : tensor<1x70x2x32xbf16>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x70x2x32xf32>) {
    %q = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %k = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %v = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %one = arith.constant 1.0 : f32
    %squares = arith.mulf %k, %k : vector<16xf32>
    %sum = ejk.sum %squares : vector<16xf32>
    %inverse = arith.divf %one, %sum : f32
    %spread = vector.broadcast %inverse : f32 to vector<16xf32>
    %key = arith.mulf %k, %spread : vector<16xf32>
    %S1 = ejk.outer_add %S, %key, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %r = ejk.read %S1, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  %e, %et = ejk.scan
      sequences(%q = %qws : tensor<1x70x2x16xf32>, %k = %kws : tensor<1x70x2x16xf32>, %v = %vws : tensor<1x70x2x32xf32>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x70x2x32xf32>) {
    %one = arith.constant 1.0 : f32
    %squares = arith.mulf %k, %k : vector<16xf32>
    %sum = ejk.sum %squares : vector<16xf32>
    %inverse = arith.divf %one, %sum : f32
    %spread = vector.broadcast %inverse : f32 to vector<16xf32>
    %key = arith.mulf %k, %spread : vector<16xf32>
    %S1 = ejk.outer_add %S, %key, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %r = ejk.read %S1, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  check.expect_close %o, %e max_relative 1.0e-12 : tensor<1x70x2x32xf32>
  check.expect_close %ht, %et max_relative 1.0e-12 : tensor<1x2x16x32xf32>
  return
}
