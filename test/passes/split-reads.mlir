// RUN: ejk-opt %s --ejk-split-reads --canonicalize 2>/dev/null | FileCheck %s
// RUN: ejk-opt %s --ejk-split-reads --verify-diagnostics -o /dev/null
// RUN: ejk-opt %s --ejk-split-reads=keep-up-to=20 2>/dev/null | FileCheck %s --check-prefix=WHOLE
// RUN: ejk-opt %s --ejk-split-reads=keep-up-to=19 --canonicalize 2>/dev/null | FileCheck %s
// RUN: ejk-opt %s --ejk-split-reads=above=20 2>/dev/null | FileCheck %s --check-prefix=WHOLE
// RUN: ejk-opt %s --ejk-split-reads=above=19 --canonicalize 2>/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-split-reads --ejk-interpret
// RUN: ejk-opt %s --ejk-split-reads --canonicalize --ejk-interpret

// Numbers do not change: what is compared is a scan that reads along both axes,
// and two that read along one each and so are left alone.
// CHECK-LABEL: func @both_axes
// A state of more than 19 elements is split.
// WIDE-LABEL: func @both_axes
// WIDE: ejk.scan
// WIDE: ejk.read {{.*}} along {{key|value}}
// WIDE-NEXT: ejk.yield
// WIDE: ejk.scan
// WIDE: ejk.read {{.*}} along {{key|value}}
// WIDE-NEXT: ejk.yield
// A kernel that holds states of 20 elements makes both reads.
// WHOLE-LABEL: func @both_axes
// WHOLE: ejk.scan
// WHOLE: ejk.read {{.*}} along key
// WHOLE-NEXT: ejk.read {{.*}} along value
func.func @both_axes() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %v = check.random normal seed 2 : tensor<2x9x2x5xf32>
  %g = check.random log_gate seed 4 : tensor<2x9x2xf32>
  // CHECK: ejk.scan
  // CHECK: ejk.read {{.*}} along {{key|value}}
  // CHECK-NOT: ejk.read
  // CHECK: ejk.scan
  // CHECK: ejk.read {{.*}} along {{key|value}}
  // CHECK-NOT: ejk.read
  // CHECK: ejk.scan
  %o1, %p1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x5xf32>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x5xf32>)
      -> (tensor<2x9x2x5xf32>, tensor<2x9x2x4xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x5xf32>, f32
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<4x5xf32>, vector<4xf32>, vector<5xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x5xf32>, vector<4xf32>
    %pt = ejk.read %S2, %vt along value : vector<4x5xf32>, vector<5xf32>
    ejk.yield states(%S2 : vector<4x5xf32>) outputs(%ot, %pt : vector<5xf32>, vector<4xf32>)
  }
  %o2, %h2 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x5xf32>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x5xf32>)
      -> (tensor<2x9x2x5xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x5xf32>, f32
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<4x5xf32>, vector<4xf32>, vector<5xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x5xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x5xf32>) outputs(%ot : vector<5xf32>)
  }
  %p2, %h3 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x5xf32>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x5xf32>)
      -> (tensor<2x9x2x4xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x5xf32>, f32
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<4x5xf32>, vector<4xf32>, vector<5xf32>
    %pt = ejk.read %S2, %vt along value : vector<4x5xf32>, vector<5xf32>
    ejk.yield states(%S2 : vector<4x5xf32>) outputs(%pt : vector<4xf32>)
  }
  check.expect_equal %o1, %o2 : tensor<2x9x2x5xf32>
  check.expect_equal %p1, %p2 : tensor<2x9x2x4xf32>
  check.expect_equal %h1, %h2 : tensor<2x2x4x5xf32>
  return
}

// An output that depends on both reads takes the first scan's as a sequence. A
// state that starts at zero and gains v vᵀ once reads v(v·v) both ways.
// CHECK-LABEL: func @mixed_output
func.func @mixed_output() {
  %v = arith.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>
  // CHECK: %[[READ:.*]], %{{.*}} = ejk.scan
  // CHECK-NOT: along key
  // CHECK: ejk.read {{.*}} along value
  // CHECK-NOT: along key
  // CHECK: ejk.scan
  // CHECK-NEXT: sequences({{.*}}%[[READ]]
  // CHECK-NOT: along value
  // CHECK: ejk.read {{.*}} along key
  %o, %h = ejk.scan sequences(%vt = %v : tensor<1x1x1x2xf32>)
      states(%S = zero : tensor<1x1x2x2xf32>)
      -> (tensor<1x1x1x2xf32>) {
    %S1 = ejk.outer_add %S, %vt, %vt : vector<2x2xf32>, vector<2xf32>, vector<2xf32>
    %a = ejk.read %S1, %vt along key : vector<2x2xf32>, vector<2xf32>
    %b = ejk.read %S1, %vt along value : vector<2x2xf32>, vector<2xf32>
    %ot = arith.addf %a, %b : vector<2xf32>
    ejk.yield states(%S1 : vector<2x2xf32>) outputs(%ot : vector<2xf32>)
  }
  %e = arith.constant dense<[[[[10.0, 20.0]]]]> : tensor<1x1x1x2xf32>
  check.expect_equal %o, %e : tensor<1x1x1x2xf32>
  return
}

// Reads that take turns, each along the other axis, stay together.
// CHECK-LABEL: func @in_turn
func.func @in_turn() {
  %v = arith.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>
  // CHECK: ejk.scan
  // CHECK-NOT: ejk.scan
  // expected-remark @below {{not split: reads along each axis depend on those along the other}}
  %o, %h = ejk.scan sequences(%vt = %v : tensor<1x1x1x2xf32>)
      states(%S = zero : tensor<1x1x2x2xf32>)
      -> (tensor<1x1x1x2xf32>) {
    %S1 = ejk.outer_add %S, %vt, %vt : vector<2x2xf32>, vector<2xf32>, vector<2xf32>
    %a = ejk.read %S1, %vt along key : vector<2x2xf32>, vector<2xf32>
    %b = ejk.read %S1, %a along value : vector<2x2xf32>, vector<2xf32>
    %c = ejk.read %S1, %b along key : vector<2x2xf32>, vector<2xf32>
    ejk.yield states(%S1 : vector<2x2xf32>) outputs(%c : vector<2xf32>)
  }
  %e = arith.constant dense<[[[[125.0, 250.0]]]]> : tensor<1x1x1x2xf32>
  check.expect_equal %o, %e : tensor<1x1x1x2xf32>
  return
}
