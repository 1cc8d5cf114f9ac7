// RUN: ejk-opt %s --ejk-specialize --ejk-interpret
// RUN: sed s/4.0e-3/1.0e-12/ %s | ejk-opt --ejk-specialize --ejk-chunk --ejk-interpret
// RUN: sed s/4.0e-3/1.0e-12/ %s | ejk-opt --ejk-specialize --ejk-chunk=chunk=16 --ejk-interpret
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-defer-state-scaling --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-specialize --ejk-chunk | FileCheck %s

// Gates of both axes. Where all reads are along one, the state is in that one's basis alone,
// and each has all 64 nats: what is read of the state is scaled along the other axis, and what
// is added comes decayed to the chunk's end. Each recurrence once in bf16, which becomes a
// program, and once on the same numbers in f32, which stays.

// CHECK-LABEL: func.func @along_key
// CHECK:         tile.range_guard 6.400000e+01
// CHECK:         tile.guarded
// CHECK:           tile.broadcast %{{.*}} along 0 {{.*}} -> vector<32x16xf32>
// CHECK-NOT:       along 1 : vector<16xf32> -> vector<32x16xf32>
// CHECK:           %[[READ:.*]] = tile.dot {{.*}} : vector<64x32xbf16>, vector<32x16xbf16>, vector<64x16xf32>
// CHECK:           %[[M:.*]] = tile.broadcast %{{.*}} along 1 {{.*}} -> vector<64x16xf32>
// CHECK:           %[[START:.*]] = arith.mulf %{{.*}}, %[[M]]
// CHECK:           tile.dot %{{.*}}, %{{.*}}, %[[START]] : vector<64x64xbf16>, vector<64x16xbf16>
// CHECK:           %[[T:.*]] = tile.broadcast %{{.*}} along 1 {{.*}} -> vector<32x16xf32>
// CHECK:           %[[OLD:.*]] = arith.mulf %{{.*}}, %[[T]]
// CHECK:           tile.dot %{{.*}} transposed, %{{.*}}, %[[OLD]]
// CHECK:         } exact {
func.func @along_key() {
  %q = check.random normal seed 1 : tensor<2x150x2x32xbf16>
  %k = check.random normal seed 2 : tensor<2x150x2x32xbf16>
  %v = check.random normal seed 3 : tensor<2x150x2x16xbf16>
  %g = check.random log_gate seed 4 : tensor<2x150x2xf32>
  %gk = check.random log_gate seed 5 : tensor<2x150x2x32xf32>
  %gv = check.random log_gate seed 6 : tensor<2x150x2x16xf32>
  %h0 = check.random normal seed 7 : tensor<2x2x32x16xf32>
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<2x150x2xf32>) gk(%gk : tensor<2x150x2x32xf32>)
      gv(%gv : tensor<2x150x2x16xf32>) initial_state(%h0 : tensor<2x2x32x16xf32>)
      : tensor<2x150x2x32xbf16>, tensor<2x150x2x32xbf16>, tensor<2x150x2x16xbf16>
      -> tensor<2x150x2x16xbf16>, tensor<2x2x32x16xf32>
  %qw = arith.extf %q : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %kw = arith.extf %k : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %vw = arith.extf %v : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  %e, %et = ejk.recurrent %qw, %kw, %vw g(%g : tensor<2x150x2xf32>) gk(%gk : tensor<2x150x2x32xf32>)
      gv(%gv : tensor<2x150x2x16xf32>) initial_state(%h0 : tensor<2x2x32x16xf32>)
      : tensor<2x150x2x32xf32>, tensor<2x150x2x32xf32>, tensor<2x150x2x16xf32>
      -> tensor<2x150x2x16xf32>, tensor<2x2x32x16xf32>
  %ow = arith.extf %o : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<2x150x2x16xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<2x2x32x16xf32>
  return
}

// CHECK-LABEL: func.func @reverse
// CHECK:         tile.range_guard 6.400000e+01
func.func @reverse() {
  %q = check.random normal seed 1 : tensor<2x150x2x32xbf16>
  %k = check.random normal seed 2 : tensor<2x150x2x32xbf16>
  %v = check.random normal seed 3 : tensor<2x150x2x16xbf16>
  %g = check.random log_gate seed 4 : tensor<2x150x2xf32>
  %gk = check.random log_gate seed 5 : tensor<2x150x2x32xf32>
  %gv = check.random log_gate seed 6 : tensor<2x150x2x16xf32>
  %h0 = check.random normal seed 7 : tensor<2x2x32x16xf32>
  %o, %ht = ejk.recurrent reverse %q, %k, %v g(%g : tensor<2x150x2xf32>) gk(%gk : tensor<2x150x2x32xf32>)
      gv(%gv : tensor<2x150x2x16xf32>) initial_state(%h0 : tensor<2x2x32x16xf32>)
      : tensor<2x150x2x32xbf16>, tensor<2x150x2x32xbf16>, tensor<2x150x2x16xbf16>
      -> tensor<2x150x2x16xbf16>, tensor<2x2x32x16xf32>
  %qw = arith.extf %q : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %kw = arith.extf %k : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %vw = arith.extf %v : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  %e, %et = ejk.recurrent reverse %qw, %kw, %vw g(%g : tensor<2x150x2xf32>) gk(%gk : tensor<2x150x2x32xf32>)
      gv(%gv : tensor<2x150x2x16xf32>) initial_state(%h0 : tensor<2x2x32x16xf32>)
      : tensor<2x150x2x32xf32>, tensor<2x150x2x32xf32>, tensor<2x150x2x16xf32>
      -> tensor<2x150x2x16xf32>, tensor<2x2x32x16xf32>
  %ow = arith.extf %o : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<2x150x2x16xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<2x2x32x16xf32>
  return
}

// CHECK-LABEL: func.func @along_value
// CHECK:         tile.range_guard 6.400000e+01
func.func @along_value() {
  %c = check.random normal seed 1 : tensor<2x150x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x150x2x32xbf16>
  %x = check.random normal seed 3 : tensor<2x150x2x16xbf16>
  %gk = check.random log_gate seed 5 : tensor<2x150x2x32xf32>
  %gv = check.random log_gate seed 6 : tensor<2x150x2x16xf32>
  %cw = arith.extf %c : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %bw = arith.extf %b : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %xw = arith.extf %x : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  %o0, %ot = ejk.scan
      sequences(%cn = %c : tensor<2x150x2x32xbf16>,
                %bn = %b : tensor<2x150x2x32xbf16>,
                %xn = %x : tensor<2x150x2x16xbf16>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) -> (tensor<2x150x2x32xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %r0 = ejk.read %S3, %xt along value : vector<32x16xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>) outputs(%r0 : vector<32xf32>)
  }
  %e0, %et = ejk.scan
      sequences(%ct = %cw : tensor<2x150x2x32xf32>,
                %bt = %bw : tensor<2x150x2x32xf32>,
                %xt = %xw : tensor<2x150x2x16xf32>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) -> (tensor<2x150x2x32xf32>) {
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %r0 = ejk.read %S3, %xt along value : vector<32x16xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>) outputs(%r0 : vector<32xf32>)
  }
  check.expect_close %o0, %e0 max_relative 4.0e-3 : tensor<2x150x2x32xf32>
  check.expect_close %ot, %et max_relative 4.0e-3 : tensor<2x2x32x16xf32>
  return
}

// Of a state that nothing reads neither basis is needed.
// CHECK-LABEL: func.func @no_reads
// CHECK:         tile.range_guard 6.400000e+01
func.func @no_reads() {
  %c = check.random normal seed 1 : tensor<2x150x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x150x2x32xbf16>
  %x = check.random normal seed 3 : tensor<2x150x2x16xbf16>
  %gk = check.random log_gate seed 5 : tensor<2x150x2x32xf32>
  %gv = check.random log_gate seed 6 : tensor<2x150x2x16xf32>
  %cw = arith.extf %c : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %bw = arith.extf %b : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %xw = arith.extf %x : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  %ot = ejk.scan
      sequences(%cn = %c : tensor<2x150x2x32xbf16>,
                %bn = %b : tensor<2x150x2x32xbf16>,
                %xn = %x : tensor<2x150x2x16xbf16>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>)
  }
  %et = ejk.scan
      sequences(%ct = %cw : tensor<2x150x2x32xf32>,
                %bt = %bw : tensor<2x150x2x32xf32>,
                %xt = %xw : tensor<2x150x2x16xf32>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) {
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>)
  }
  check.expect_close %ot, %et max_relative 4.0e-3 : tensor<2x2x32x16xf32>
  return
}

// Of reads along both axes each has need of another basis: the state is in both, and each has half.
// CHECK-LABEL: func.func @along_both
// CHECK:         tile.range_guard 3.200000e+01
func.func @along_both() {
  %c = check.random normal seed 1 : tensor<2x150x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x150x2x32xbf16>
  %x = check.random normal seed 3 : tensor<2x150x2x16xbf16>
  %gk = check.random log_gate seed 5 : tensor<2x150x2x32xf32>
  %gv = check.random log_gate seed 6 : tensor<2x150x2x16xf32>
  %cw = arith.extf %c : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %bw = arith.extf %b : tensor<2x150x2x32xbf16> to tensor<2x150x2x32xf32>
  %xw = arith.extf %x : tensor<2x150x2x16xbf16> to tensor<2x150x2x16xf32>
  %o0, %o1, %ot = ejk.scan
      sequences(%cn = %c : tensor<2x150x2x32xbf16>,
                %bn = %b : tensor<2x150x2x32xbf16>,
                %xn = %x : tensor<2x150x2x16xbf16>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) -> (tensor<2x150x2x16xf32>, tensor<2x150x2x32xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %r0 = ejk.read %S3, %ct along key : vector<32x16xf32>, vector<32xf32>
    %r1 = ejk.read %S3, %xt along value : vector<32x16xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>) outputs(%r0, %r1 : vector<16xf32>, vector<32xf32>)
  }
  %e0, %e1, %et = ejk.scan
      sequences(%ct = %cw : tensor<2x150x2x32xf32>,
                %bt = %bw : tensor<2x150x2x32xf32>,
                %xt = %xw : tensor<2x150x2x16xf32>,
                %gkt = %gk : tensor<2x150x2x32xf32>, %gvt = %gv : tensor<2x150x2x16xf32>)
      states(%S = zero : tensor<2x2x32x16xf32>) -> (tensor<2x150x2x16xf32>, tensor<2x150x2x32xf32>) {
    %S1 = ejk.decay %S by %gkt along key : vector<32x16xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x16xf32>, vector<16xf32>
    %S3 = ejk.outer_add %S2, %bt, %xt : vector<32x16xf32>, vector<32xf32>, vector<16xf32>
    %r0 = ejk.read %S3, %ct along key : vector<32x16xf32>, vector<32xf32>
    %r1 = ejk.read %S3, %xt along value : vector<32x16xf32>, vector<16xf32>
    ejk.yield states(%S3 : vector<32x16xf32>) outputs(%r0, %r1 : vector<16xf32>, vector<32xf32>)
  }
  check.expect_close %o0, %e0 max_relative 4.0e-3 : tensor<2x150x2x16xf32>
  check.expect_close %o1, %e1 max_relative 4.0e-3 : tensor<2x150x2x32xf32>
  check.expect_close %ot, %et max_relative 4.0e-3 : tensor<2x2x32x16xf32>
  return
}
