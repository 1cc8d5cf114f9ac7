// RUN: ejk-opt %s --ejk-to-scan | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-to-scan --ejk-interpret
// RUN: ejk-opt %s --ejk-to-scan --ejk-interpret=precision=native

// Each recurrence is compared with a scan written by hand. Recurrences and
// scans are interpreted by separate code, so the first run checks one against
// the other, and the second that the pass changes nothing. Scales that f32
// holds exactly leave only the order of sums; 2e-6 covers it in f32 as well.

// Every gate, a state in, K ≠ V, and fewer key/value heads.
// CHECK-LABEL: func @gates
func.func @gates() {
  %q = check.random normal seed 1 : tensor<2x9x4x6xf32>
  %k = check.random normal seed 2 : tensor<2x9x2x6xf32>
  %v = check.random normal seed 3 : tensor<2x9x2x5xf32>
  %g = check.random log_gate seed 4 : tensor<2x9x4xf32>
  %gamma = check.random log_gate seed 5 : tensor<4xf32>
  %gk = check.random log_gate seed 6 : tensor<2x9x4x6xf32>
  %gv = check.random log_gate seed 7 : tensor<2x9x4x5xf32>
  %h0 = check.random normal seed 8 : tensor<2x4x6x5xf32>
  // CHECK: ejk.scan
  // CHECK: %[[S1:.*]] = ejk.decay %{{.*}} by %{{.*}} along head
  // CHECK: %[[S2:.*]] = ejk.decay %[[S1]] by %{{.*}} along head
  // CHECK: %[[S3:.*]] = ejk.decay %[[S2]] by %{{.*}} along key
  // CHECK: %[[S4:.*]] = ejk.decay %[[S3]] by %{{.*}} along value
  // CHECK: %[[S5:.*]] = ejk.outer_add %[[S4]]
  // CHECK: %[[O:.*]] = ejk.read %[[S5]], %{{.*}} along key
  // CHECK: ejk.yield states(%[[S5]] : {{.*}}) outputs(%[[O]] : {{.*}})
  %o1, %h1 = ejk.recurrent %q, %k, %v g(%g : tensor<2x9x4xf32>) g_gamma(%gamma : tensor<4xf32>)
      gk(%gk : tensor<2x9x4x6xf32>) gv(%gv : tensor<2x9x4x5xf32>)
      initial_state(%h0 : tensor<2x4x6x5xf32>) {softmax_scale = 0.5 : f64}
      : tensor<2x9x4x6xf32>, tensor<2x9x2x6xf32>, tensor<2x9x2x5xf32>
      -> tensor<2x9x4x5xf32>, tensor<2x4x6x5xf32>
  %o2, %h2 = ejk.scan
      sequences(%qt = %q : tensor<2x9x4x6xf32>, %kt = %k : tensor<2x9x2x6xf32>,
                %vt = %v : tensor<2x9x2x5xf32>, %gt = %g : tensor<2x9x4xf32>,
                %gkt = %gk : tensor<2x9x4x6xf32>, %gvt = %gv : tensor<2x9x4x5xf32>)
      parameters(%ga = %gamma : tensor<4xf32> as f32)
      states(%S = %h0 : tensor<2x4x6x5xf32>)
      -> (tensor<2x9x4x5xf32>) {
    %gg = arith.addf %gt, %ga : f32
    %S1 = ejk.decay %S by %gvt along value : vector<6x5xf32>, vector<5xf32>
    %S2 = ejk.decay %S1 by %gkt along key : vector<6x5xf32>, vector<6xf32>
    %S3 = ejk.decay %S2 by %gg along head : vector<6x5xf32>, f32
    %S4 = ejk.outer_add %S3, %kt, %vt : vector<6x5xf32>, vector<6xf32>, vector<5xf32>
    %half = arith.constant dense<0.5> : vector<5xf32>
    %r = ejk.read %S4, %qt along key : vector<6x5xf32>, vector<6xf32>
    %ot = arith.mulf %r, %half : vector<5xf32>
    ejk.yield states(%S4 : vector<6x5xf32>) outputs(%ot : vector<5xf32>)
  }
  check.expect_close %o1, %o2 max_relative 2.0e-6 : tensor<2x9x4x5xf32>
  check.expect_close %h1, %h2 max_relative 2.0e-6 : tensor<2x4x6x5xf32>
  return
}

// Narrow rows are widened where they are used and the output rounded; gates of
// -inf, packed sequences of which one is empty and one a single step, backwards.
// CHECK-LABEL: func @packed_reverse
func.func @packed_reverse() {
  %q = check.random normal seed 1 : tensor<1x9x2x4xbf16>
  %k = check.random normal seed 2 : tensor<1x9x2x4xbf16>
  %v = check.random normal seed 3 : tensor<1x9x2x3xbf16>
  %cu = arith.constant dense<[0, 4, 4, 5, 9]> : tensor<5xi64>
  %raw = check.random log_gate seed 4 : tensor<1x9x2xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<1x9x2xf32>
  %limit = arith.constant dense<-1.0> : tensor<1x9x2xf32>
  %low = arith.cmpf olt, %raw, %limit : tensor<1x9x2xf32>
  %g = arith.select %low, %inf, %raw : tensor<1x9x2xi1>, tensor<1x9x2xf32>
  %h0 = check.random normal seed 8 : tensor<4x2x4x3xf32>
  // CHECK: ejk.scan reverse cu_seqlens
  // CHECK: arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
  // CHECK: arith.truncf %{{.*}} : vector<3xf32> to vector<3xbf16>
  %o1, %h1 = ejk.gla reverse %q, %k, %v g(%g : tensor<1x9x2xf32>)
      initial_state(%h0 : tensor<4x2x4x3xf32>) cu_seqlens(%cu : tensor<5xi64>)
      : tensor<1x9x2x4xbf16>, tensor<1x9x2x4xbf16>, tensor<1x9x2x3xbf16>
      -> tensor<1x9x2x3xbf16>, tensor<4x2x4x3xf32>
  %o2, %h2 = ejk.scan reverse cu_seqlens(%cu : tensor<5xi64>)
      sequences(%qt = %q : tensor<1x9x2x4xbf16>, %kt = %k : tensor<1x9x2x4xbf16>,
                %vt = %v : tensor<1x9x2x3xbf16>, %gt = %g : tensor<1x9x2xf32>)
      states(%S = %h0 : tensor<4x2x4x3xf32>)
      -> (tensor<1x9x2x3xbf16>) {
    %qf = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %kf = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vf = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kf, %vf : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %half = arith.constant dense<0.5> : vector<4xf32>
    %qs = arith.mulf %qf, %half : vector<4xf32>
    %r = ejk.read %S2, %qs along key : vector<4x3xf32>, vector<4xf32>
    %ot = arith.truncf %r : vector<3xf32> to vector<3xbf16>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%ot : vector<3xbf16>)
  }
  check.expect_close %o1, %o2 max_relative 2.0e-6 : tensor<1x9x2x3xbf16>
  check.expect_close %h1, %h2 max_relative 2.0e-6 : tensor<4x2x4x3xf32>
  return
}

// Lightning's γ comes from the head's index: -(8/H)·(3/4)·h.
// CHECK-LABEL: func @lightning
func.func @lightning() {
  %q = check.random normal seed 1 : tensor<1x9x3x4xf32>
  %gamma = arith.constant dense<[0.0, -2.0, -4.0]> : tensor<3xf32>
  // CHECK: ejk.head_index
  // CHECK: ejk.num_heads
  %o1, %h1 = ejk.lightning_attn %q, %q, %q {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<1x9x3x4xf32>, tensor<1x9x3x4xf32>, tensor<1x9x3x4xf32>
      -> tensor<1x9x3x4xf32>, tensor<1x3x4x4xf32>
  %o2, %h2 = ejk.gla %q, %q, %q g_gamma(%gamma : tensor<3xf32>)
      : tensor<1x9x3x4xf32>, tensor<1x9x3x4xf32>, tensor<1x9x3x4xf32>
      -> tensor<1x9x3x4xf32>, tensor<1x3x4x4xf32>
  check.expect_close %o1, %o2 max_relative 2.0e-6 : tensor<1x9x3x4xf32>
  check.expect_close %h1, %h2 max_relative 2.0e-6 : tensor<1x3x4x4xf32>
  return
}
