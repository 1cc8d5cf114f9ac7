// RUN: ejk-opt %s --ejk-interpret=precision=f64 | FileCheck %s

// The pass leaves the IR alone.
// CHECK-LABEL: func @random_is_defined
// CHECK: check.random normal seed 42
func.func @random_is_defined() {
  // Computed from splitmix64 and Box and Muller's formula by hand: see the op.
  %normal = check.random normal seed 42 : tensor<3xf64>
  %e = arith.constant dense<[8.82248906222268814e-01, -4.50849875718860094e-01, 1.88352634115931505e-01]> : tensor<3xf64>
  check.expect_close %normal, %e max_relative 1.0e-14 : tensor<3xf64>
  %uniform = check.random uniform seed 42 : tensor<3xf64>
  %u = arith.constant dense<[7.41564878771823310e-01, 1.59910392876920104e-01, 2.78601130255138663e-01]> : tensor<3xf64>
  check.expect_equal %uniform, %u : tensor<3xf64>
  %zero = check.random zero seed 42 : tensor<3xbf16>
  %z = arith.constant dense<0.0> : tensor<3xbf16>
  check.expect_equal %zero, %z : tensor<3xbf16>
  return
}

// Equal infinities are equal, and an empty tensor is close to itself.
func.func @edges() {
  %inf = arith.constant dense<[0x7F800000, 1.0]> : tensor<2xf32>
  check.expect_close %inf, %inf max_relative 0.0 : tensor<2xf32>
  %empty = check.random normal seed 1 : tensor<0x4xf32>
  check.expect_close %empty, %empty max_relative 0.0 : tensor<0x4xf32>
  return
}

// Elementwise ops, whole tensors at a time.
func.func @elementwise() {
  %x = check.random normal seed 3 : tensor<4x5xf32>
  %e = math.exp %x : tensor<4x5xf32>
  %l = math.log %e : tensor<4x5xf32>
  check.expect_close %l, %x max_relative 1.0e-14 : tensor<4x5xf32>
  %zero = arith.constant dense<0.0> : tensor<4x5xf32>
  %negative = arith.cmpf olt, %x, %zero : tensor<4x5xf32>
  %flipped = arith.negf %x : tensor<4x5xf32>
  %abs = arith.select %negative, %flipped, %x : tensor<4x5xi1>, tensor<4x5xf32>
  %abs2 = math.absf %x : tensor<4x5xf32>
  check.expect_equal %abs, %abs2 : tensor<4x5xf32>
  return
}

#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
// A sum along a row, and an index from where the body stands.
func.func @linalg() {
  %x = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x3xf32>) outs(%init : tensor<2xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %s = arith.addf %acc, %in : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  %esum = arith.constant dense<[6.0, 15.0]> : tensor<2xf32>
  check.expect_equal %sum, %esum : tensor<2xf32>
  %ei = tensor.empty() : tensor<2xi64>
  %index = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%ei : tensor<2xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    linalg.yield %c : i64
  } -> tensor<2xi64>
  %eindex = arith.constant dense<[0, 1]> : tensor<2xi64>
  check.expect_equal %index, %eindex : tensor<2xi64>
  return
}
