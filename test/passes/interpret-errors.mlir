// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-interpret

func.func @too_far() {
  %a = arith.constant dense<[[3.0, 4.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<[[3.0, 4.0], [0.0, 0.0]]> : tensor<2x2xf32>
  // expected-error @below {{relative error 2.000E-01 exceeds 1.000E-01; first at [1, 1]: actual 1.0000000000E+00, expected 0.0000000000E+00}}
  check.expect_close %a, %b max_relative 0.1 : tensor<2x2xf32>
  // The run goes on, so that one run shows every failure.
  // expected-error @below {{1 of 4 elements differ; first at [1, 1]}}
  check.expect_equal %a, %b : tensor<2x2xf32>
  return
}

// -----

func.func @nan() {
  %a = arith.constant dense<0x7FC00000> : tensor<2xf32>
  // expected-error @below {{relative error not a number exceeds 1.000E+00; first at [0]}}
  check.expect_close %a, %a max_relative 1.0 : tensor<2xf32>
  return
}

// -----

func.func @something_for_zero() {
  %a = arith.constant dense<1.0e-30> : tensor<2xf32>
  %b = arith.constant dense<0.0> : tensor<2xf32>
  // expected-error @below {{relative error INF exceeds 1.000E+03}}
  check.expect_close %a, %b max_relative 1000.0 : tensor<2xf32>
  return
}

// -----

func.func @no_file() {
  // expected-error @below {{absent.npy}}
  %a = check.load "absent.npy" : tensor<2xf32>
  check.expect_equal %a, %a : tensor<2xf32>
  return
}

// -----

// expected-error @below {{no check ran: a function without arguments must hold 'check.expect_close' or 'check.expect_equal'}}
module {
  func.func @nothing() {
    return
  }
}
