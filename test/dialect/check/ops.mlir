// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --emit-bytecode | ejk-opt | FileCheck %s

// CHECK-LABEL: func @round_trip
func.func @round_trip() {
  // CHECK: %[[G:.*]] = check.random log_gate seed 7 : tensor<2x3xbf16>
  %g = check.random log_gate seed 7 : tensor<2x3xbf16>
  // CHECK: %[[E:.*]] = check.load "expected.npy" : tensor<2x3xbf16>
  %e = check.load "expected.npy" : tensor<2x3xbf16>
  // CHECK: check.expect_close %[[G]], %[[E]] max_relative 5.000000e-01 : tensor<2x3xbf16>
  check.expect_close %g, %e max_relative 0.5 : tensor<2x3xbf16>
  // CHECK: check.expect_equal %[[G]], %[[E]] : tensor<2x3xbf16>
  check.expect_equal %g, %e : tensor<2x3xbf16>
  return
}
