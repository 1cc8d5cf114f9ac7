// RUN: ejk-opt %s --split-input-file --verify-diagnostics

func.func @random_c1() {
  // expected-error @below {{must be statically shaped tensor}}
  %0 = check.random normal seed 0 : tensor<?xf32>
  return
}

// -----

func.func @load_c1() {
  // expected-error @below {{'check.load' op must have a path (C1), but it is empty}}
  %0 = check.load "" : tensor<2xf32>
  return
}

// -----

func.func @expect_close_c1(%a: tensor<2xf32>) {
  // expected-error @below {{'max_relative' must be finite and not negative (C1), but is -1.0}}
  check.expect_close %a, %a max_relative -1.0 : tensor<2xf32>
  return
}

// -----

func.func @expect_equal_types(%a: tensor<2xf32>, %b: tensor<3xf32>) { // expected-note {{prior use here}}
  // expected-error @below {{expects different type than prior uses}}
  check.expect_equal %a, %b : tensor<2xf32>
  return
}
