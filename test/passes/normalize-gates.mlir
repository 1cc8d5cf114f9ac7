// RUN: ejk-opt %s --ejk-normalize-gates | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-normalize-gates --ejk-interpret

// CHECK-LABEL: func @rank4_g
func.func @rank4_g() {
  %q = check.random normal seed 1 : tensor<2x7x2x6xf32>
  %k = check.random normal seed 2 : tensor<2x7x1x6xf32>
  %v = check.random normal seed 3 : tensor<2x7x1x5xf32>
  %g = check.random log_gate seed 4 : tensor<2x7x2x6xf32>
  // CHECK-NOT: ejk.gla
  // CHECK: ejk.recurrent {{.*}} gk(%{{.*}} : tensor<2x7x2x6xf32>)
  %o1, %h1 = ejk.gla %q, %k, %v g(%g : tensor<2x7x2x6xf32>)
      : tensor<2x7x2x6xf32>, tensor<2x7x1x6xf32>, tensor<2x7x1x5xf32>
      -> tensor<2x7x2x5xf32>, tensor<2x2x6x5xf32>
  // CHECK: ejk.recurrent {{.*}} gk(%{{.*}} : tensor<2x7x2x6xf32>)
  %o2, %h2 = ejk.recurrent %q, %k, %v gk(%g : tensor<2x7x2x6xf32>)
      : tensor<2x7x2x6xf32>, tensor<2x7x1x6xf32>, tensor<2x7x1x5xf32>
      -> tensor<2x7x2x5xf32>, tensor<2x2x6x5xf32>
  check.expect_equal %o1, %o2 : tensor<2x7x2x5xf32>
  check.expect_equal %h1, %h2 : tensor<2x2x6x5xf32>
  return
}

// CHECK-LABEL: func @rank4_g_adds_to_gk
func.func @rank4_g_adds_to_gk() {
  %q = check.random normal seed 1 : tensor<1x7x2x4xbf16>
  %g = check.random log_gate seed 4 : tensor<1x7x2x4xbf16>
  %gk = check.random log_gate seed 5 : tensor<1x7x2x4xf32>
  // CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : tensor<1x7x2x4xbf16> to tensor<1x7x2x4xf32>
  // CHECK: %[[SUM:.*]] = arith.addf %[[WIDE]], %{{.*}} : tensor<1x7x2x4xf32>
  // CHECK: ejk.recurrent {{.*}} gk(%[[SUM]] : tensor<1x7x2x4xf32>)
  %o1, %h1 = ejk.recurrent %q, %q, %q g(%g : tensor<1x7x2x4xbf16>) gk(%gk : tensor<1x7x2x4xf32>)
      : tensor<1x7x2x4xbf16>, tensor<1x7x2x4xbf16>, tensor<1x7x2x4xbf16>
      -> tensor<1x7x2x4xbf16>, tensor<1x2x4x4xf32>
  %wide = arith.extf %g : tensor<1x7x2x4xbf16> to tensor<1x7x2x4xf32>
  %sum = arith.addf %wide, %gk : tensor<1x7x2x4xf32>
  %o2, %h2 = ejk.recurrent %q, %q, %q gk(%sum : tensor<1x7x2x4xf32>)
      : tensor<1x7x2x4xbf16>, tensor<1x7x2x4xbf16>, tensor<1x7x2x4xbf16>
      -> tensor<1x7x2x4xbf16>, tensor<1x2x4x4xf32>
  check.expect_equal %o1, %o2 : tensor<1x7x2x4xbf16>
  check.expect_equal %h1, %h2 : tensor<1x2x4x4xf32>
  return
}

// CHECK-LABEL: func @zero_gamma
func.func @zero_gamma() {
  %q = check.random normal seed 1 : tensor<1x7x2x4xf32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  // CHECK-NOT: g_gamma
  %o1, %h1 = ejk.gla %q, %q, %q g_gamma(%zero : tensor<2xf32>)
      : tensor<1x7x2x4xf32>, tensor<1x7x2x4xf32>, tensor<1x7x2x4xf32>
      -> tensor<1x7x2x4xf32>, tensor<1x2x4x4xf32>
  %o2, %h2 = ejk.gla %q, %q, %q
      : tensor<1x7x2x4xf32>, tensor<1x7x2x4xf32>, tensor<1x7x2x4xf32>
      -> tensor<1x7x2x4xf32>, tensor<1x2x4x4xf32>
  check.expect_equal %o1, %o2 : tensor<1x7x2x4xf32>
  return
}
