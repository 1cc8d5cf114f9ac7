// Steps of three decays, with an add between each two. What the first add adds decays twice within its step, and the
// read has all three decays. Chunks of bf16 rows, against the steps of the same rows in f32, in both directions.
// RUN: ejk-opt %s --ejk-chunk --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-chunk=chunk=32 --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-chunk | FileCheck %s

// CHECK-LABEL: func.func @forwards
// CHECK:         tile.program
func.func @forwards() {
  %qs = check.random normal seed 1 : tensor<1x150x2x16xbf16>
  %qws = arith.extf %qs : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %ks = check.random normal seed 2 : tensor<1x150x2x16xbf16>
  %kws = arith.extf %ks : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %vs = check.random normal seed 3 : tensor<1x150x2x32xbf16>
  %vws = arith.extf %vs : tensor<1x150x2x32xbf16> to tensor<1x150x2x32xf32>
  %ps = check.random normal seed 4 : tensor<1x150x2x16xbf16>
  %pws = arith.extf %ps : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %g0s = check.random log_gate seed 5 : tensor<1x150x2xf32>
  %g1s = check.random log_gate seed 6 : tensor<1x150x2xf32>
  %g2s = check.random log_gate seed 7 : tensor<1x150x2xf32>
  %o, %ht = ejk.scan
      sequences(%qt = %qs : tensor<1x150x2x16xbf16>, %kt = %ks : tensor<1x150x2x16xbf16>,
                %vt = %vs : tensor<1x150x2x32xbf16>, %pt = %ps : tensor<1x150x2x16xbf16>,
                %g0 = %g0s : tensor<1x150x2xf32>, %g1 = %g1s : tensor<1x150x2xf32>, %g2 = %g2s : tensor<1x150x2xf32>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x150x2x32xf32>) {
    %q = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %k = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %v = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %p = arith.extf %pt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %g0 along head : vector<16x32xf32>, f32
    %S2 = ejk.outer_add %S1, %k, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %g1 along head : vector<16x32xf32>, f32
    %S4 = ejk.outer_add %S3, %p, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S5 = ejk.decay %S4 by %g2 along head : vector<16x32xf32>, f32
    %r = ejk.read %S5, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S5 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  %e, %et = ejk.scan
      sequences(%q = %qws : tensor<1x150x2x16xf32>, %k = %kws : tensor<1x150x2x16xf32>,
                %v = %vws : tensor<1x150x2x32xf32>, %p = %pws : tensor<1x150x2x16xf32>,
                %g0 = %g0s : tensor<1x150x2xf32>, %g1 = %g1s : tensor<1x150x2xf32>, %g2 = %g2s : tensor<1x150x2xf32>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x150x2x32xf32>) {
    %S1 = ejk.decay %S by %g0 along head : vector<16x32xf32>, f32
    %S2 = ejk.outer_add %S1, %k, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %g1 along head : vector<16x32xf32>, f32
    %S4 = ejk.outer_add %S3, %p, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S5 = ejk.decay %S4 by %g2 along head : vector<16x32xf32>, f32
    %r = ejk.read %S5, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S5 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  check.expect_close %o, %e max_relative 1.0e-12 : tensor<1x150x2x32xf32>
  check.expect_close %ht, %et max_relative 1.0e-12 : tensor<1x2x16x32xf32>
  return
}

// CHECK-LABEL: func.func @backwards
// CHECK:         tile.program
func.func @backwards() {
  %qs = check.random normal seed 1 : tensor<1x150x2x16xbf16>
  %qws = arith.extf %qs : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %ks = check.random normal seed 2 : tensor<1x150x2x16xbf16>
  %kws = arith.extf %ks : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %vs = check.random normal seed 3 : tensor<1x150x2x32xbf16>
  %vws = arith.extf %vs : tensor<1x150x2x32xbf16> to tensor<1x150x2x32xf32>
  %ps = check.random normal seed 4 : tensor<1x150x2x16xbf16>
  %pws = arith.extf %ps : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %g0s = check.random log_gate seed 5 : tensor<1x150x2xf32>
  %g1s = check.random log_gate seed 6 : tensor<1x150x2xf32>
  %g2s = check.random log_gate seed 7 : tensor<1x150x2xf32>
  %o, %ht = ejk.scan reverse
      sequences(%qt = %qs : tensor<1x150x2x16xbf16>, %kt = %ks : tensor<1x150x2x16xbf16>,
                %vt = %vs : tensor<1x150x2x32xbf16>, %pt = %ps : tensor<1x150x2x16xbf16>,
                %g0 = %g0s : tensor<1x150x2xf32>, %g1 = %g1s : tensor<1x150x2xf32>, %g2 = %g2s : tensor<1x150x2xf32>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x150x2x32xf32>) {
    %q = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %k = arith.extf %kt : vector<16xbf16> to vector<16xf32>
    %v = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %p = arith.extf %pt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %g0 along head : vector<16x32xf32>, f32
    %S2 = ejk.outer_add %S1, %k, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %g1 along head : vector<16x32xf32>, f32
    %S4 = ejk.outer_add %S3, %p, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S5 = ejk.decay %S4 by %g2 along head : vector<16x32xf32>, f32
    %r = ejk.read %S5, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S5 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  %e, %et = ejk.scan reverse
      sequences(%q = %qws : tensor<1x150x2x16xf32>, %k = %kws : tensor<1x150x2x16xf32>,
                %v = %vws : tensor<1x150x2x32xf32>, %p = %pws : tensor<1x150x2x16xf32>,
                %g0 = %g0s : tensor<1x150x2xf32>, %g1 = %g1s : tensor<1x150x2xf32>, %g2 = %g2s : tensor<1x150x2xf32>)
      states(%S = zero : tensor<1x2x16x32xf32>) -> (tensor<1x150x2x32xf32>) {
    %S1 = ejk.decay %S by %g0 along head : vector<16x32xf32>, f32
    %S2 = ejk.outer_add %S1, %k, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %g1 along head : vector<16x32xf32>, f32
    %S4 = ejk.outer_add %S3, %p, %v : vector<16x32xf32>, vector<16xf32>, vector<32xf32>
    %S5 = ejk.decay %S4 by %g2 along head : vector<16x32xf32>, f32
    %r = ejk.read %S5, %q along key : vector<16x32xf32>, vector<16xf32>
    ejk.yield states(%S5 : vector<16x32xf32>) outputs(%r : vector<32xf32>)
  }
  check.expect_close %o, %e max_relative 1.0e-12 : tensor<1x150x2x32xf32>
  check.expect_close %ht, %et max_relative 1.0e-12 : tensor<1x2x16x32xf32>
  return
}
