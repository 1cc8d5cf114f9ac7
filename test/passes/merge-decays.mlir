// RUN: ejk-opt %s --ejk-merge-decays | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-merge-decays --ejk-interpret
// RUN: ejk-opt %s --ejk-to-scan --canonicalize --cse --ejk-merge-decays --canonicalize --ejk-interpret

// Each chain of decays is compared with the recurrence that has the same gates,
// interpreted from its formula. exp(a)·exp(b) and exp(a + b) differ in f64's
// last digits only. Scales of 1/2 are exact.

// CHECK-LABEL: func @head_and_key
func.func @head_and_key() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %v = check.random normal seed 3 : tensor<2x9x2x5xf32>
  %g = check.random log_gate seed 4 : tensor<2x9x2xf32>
  %gk = check.random log_gate seed 6 : tensor<2x9x2x4xf32>
  // CHECK: ejk.decay_class = "key"
  // CHECK: %[[WIDE:.*]] = vector.broadcast %{{.*}} : f32 to vector<4xf32>
  // CHECK: %[[SUM:.*]] = arith.addf %[[WIDE]], %{{.*}} : vector<4xf32>
  // CHECK: ejk.decay %{{.*}} by %[[SUM]] along key
  // CHECK-NOT: ejk.decay
  %o1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x5xf32>,
                %gt = %g : tensor<2x9x2xf32>, %gkt = %gk : tensor<2x9x2x4xf32>)
      states(%S = zero : tensor<2x2x4x5xf32>)
      -> (tensor<2x9x2x5xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x5xf32>, f32
    %S2 = ejk.decay %S1 by %gkt along key : vector<4x5xf32>, vector<4xf32>
    %S3 = ejk.outer_add %S2, %qt, %vt : vector<4x5xf32>, vector<4xf32>, vector<5xf32>
    %half = arith.constant dense<0.5> : vector<4xf32>
    %qs = arith.mulf %qt, %half : vector<4xf32>
    %ot = ejk.read %S3, %qs along key : vector<4x5xf32>, vector<4xf32>
    ejk.yield states(%S3 : vector<4x5xf32>) outputs(%ot : vector<5xf32>)
  }
  %o2, %h2 = ejk.recurrent %q, %q, %v g(%g : tensor<2x9x2xf32>) gk(%gk : tensor<2x9x2x4xf32>)
      : tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>, tensor<2x9x2x5xf32>
      -> tensor<2x9x2x5xf32>, tensor<2x2x4x5xf32>
  check.expect_close %o1, %o2 max_relative 1.0e-14 : tensor<2x9x2x5xf32>
  return
}

// Two gates of one axis add, over a gate of another that lies between; both
// channel axes stay. -inf and a finite gate add to -inf.
// CHECK-LABEL: func @both_axes
func.func @both_axes() {
  %q = check.random normal seed 1 : tensor<1x9x2x4xf32>
  %raw = check.random log_gate seed 6 : tensor<1x9x2x4xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<1x9x2x4xf32>
  %limit = arith.constant dense<-1.5> : tensor<1x9x2x4xf32>
  %low = arith.cmpf olt, %raw, %limit : tensor<1x9x2x4xf32>
  %gk = arith.select %low, %inf, %raw : tensor<1x9x2x4xi1>, tensor<1x9x2x4xf32>
  %gv = check.random log_gate seed 7 : tensor<1x9x2x4xf32>
  // CHECK: ejk.decay_class = "both"
  // CHECK: %[[SUM:.*]] = arith.addf
  // CHECK: %[[S1:.*]] = ejk.decay %{{.*}} by %[[SUM]] along key
  // CHECK: ejk.decay %[[S1]] by %{{.*}} along value
  // CHECK-NOT: ejk.decay {{.*}} along
  %o1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<1x9x2x4xf32>, %gkt = %gk : tensor<1x9x2x4xf32>,
                %gvt = %gv : tensor<1x9x2x4xf32>)
      states(%S = zero : tensor<1x2x4x4xf32>)
      -> (tensor<1x9x2x4xf32>) {
    %S1 = ejk.decay %S by %gkt along key : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<4x4xf32>, vector<4xf32>
    %S3 = ejk.decay %S2 by %gvt along key : vector<4x4xf32>, vector<4xf32>
    %S4 = ejk.outer_add %S3, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %half = arith.constant dense<0.5> : vector<4xf32>
    %qs = arith.mulf %qt, %half : vector<4xf32>
    %ot = ejk.read %S4, %qs along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S4 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  %sum = arith.addf %gk, %gv : tensor<1x9x2x4xf32>
  %o2, %h2 = ejk.recurrent %q, %q, %q gk(%sum : tensor<1x9x2x4xf32>) gv(%gv : tensor<1x9x2x4xf32>)
      : tensor<1x9x2x4xf32>, tensor<1x9x2x4xf32>, tensor<1x9x2x4xf32>
      -> tensor<1x9x2x4xf32>, tensor<1x2x4x4xf32>
  check.expect_close %o1, %o2 max_relative 1.0e-14 : tensor<1x9x2x4xf32>
  check.expect_close %h1, %h2 max_relative 1.0e-14 : tensor<1x2x4x4xf32>
  return
}

// A channel gate that is one number is a head gate, and one that only a
// parameter decides is constant in time.
// CHECK-LABEL: func @narrowed_constant
func.func @narrowed_constant() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %gamma = check.random log_gate seed 5 : tensor<2xf32>
  // CHECK: ejk.decay_class = "constant"
  // CHECK: ejk.decay %{{.*}} by %{{.*}} along head
  %o1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>)
      parameters(%ga = %gamma : tensor<2xf32> as f32)
      states(%S = zero : tensor<2x2x4x4xf32>)
      -> (tensor<2x9x2x4xf32>) {
    %wide = vector.broadcast %ga : f32 to vector<4xf32>
    %S1 = ejk.decay %S by %wide along value : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %half = arith.constant dense<0.5> : vector<4xf32>
    %qs = arith.mulf %qt, %half : vector<4xf32>
    %ot = ejk.read %S2, %qs along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  %o2, %h2 = ejk.gla %q, %q, %q g_gamma(%gamma : tensor<2xf32>)
      : tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>
      -> tensor<2x9x2x4xf32>, tensor<2x2x4x4xf32>
  check.expect_close %o1, %o2 max_relative 1.0e-14 : tensor<2x9x2x4xf32>
  return
}

// A state that is read between two decays needs both.
// CHECK-LABEL: func @read_between
func.func @read_between() {
  %q = check.random normal seed 1 : tensor<1x9x2x4xf32>
  %g = check.random log_gate seed 4 : tensor<1x9x2xf32>
  // CHECK: ejk.decay_class = "scalar"
  // CHECK: ejk.decay
  // CHECK: ejk.read
  // CHECK: ejk.decay
  %o1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<1x9x2x4xf32>, %gt = %g : tensor<1x9x2xf32>)
      states(%S = zero : tensor<1x2x4x4xf32>)
      -> (tensor<1x9x2x4xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x4xf32>, f32
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.decay %S1 by %gt along head : vector<4x4xf32>, f32
    %S3 = ejk.outer_add %S2, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S3 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  %twice = arith.addf %g, %g : tensor<1x9x2xf32>
  %o2, %h2 = ejk.gla %q, %q, %q g(%twice : tensor<1x9x2xf32>)
      : tensor<1x9x2x4xf32>, tensor<1x9x2x4xf32>, tensor<1x9x2x4xf32>
      -> tensor<1x9x2x4xf32>, tensor<1x2x4x4xf32>
  check.expect_close %h1, %h2 max_relative 1.0e-14 : tensor<1x2x4x4xf32>
  return
}
