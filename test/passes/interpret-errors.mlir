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

// NaN and an infinity agree with themselves; on one side alone they are wrong.
func.func @nan() {
  %a = arith.constant dense<[0x7FC00000, 0x7F800000, 1.0]> : tensor<3xf32>
  %b = arith.constant dense<[2.0, 0x7F800000, 1.0]> : tensor<3xf32>
  %c = arith.constant dense<[0x7FC00000, 0xFF800000, 1.0]> : tensor<3xf32>
  %d = arith.constant dense<[0x7FC00000, 0x7F800000, 1.5]> : tensor<3xf32>
  check.expect_close %a, %a max_relative 0.0 : tensor<3xf32>
  check.expect_equal %a, %a : tensor<3xf32>
  check.expect_close %d, %a max_relative 0.5 : tensor<3xf32>
  // expected-error @below {{relative error 5.000E-01 exceeds 4.000E-01; first at [2]}}
  check.expect_close %d, %a max_relative 0.4 : tensor<3xf32>
  // expected-error @below {{NaN or infinite on one side alone; first at [0]}}
  check.expect_close %a, %b max_relative 1.0 : tensor<3xf32>
  // expected-error @below {{NaN or infinite on one side alone; first at [0]}}
  check.expect_close %b, %a max_relative 1.0 : tensor<3xf32>
  // expected-error @below {{NaN or infinite on one side alone; first at [1]}}
  check.expect_close %a, %c max_relative 1.0 : tensor<3xf32>
  // expected-error @below {{1 of 3 elements differ; first at [0]}}
  check.expect_equal %a, %b : tensor<3xf32>
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
