// Functions whose scans compute the same launch one kernel. One that takes a tensor twice, or does not
// use the final state, has its own.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-gpu | FileCheck %s

// CHECK: gpu.func @first_scan0(
// CHECK-NOT: gpu.func @second_scan0
// CHECK: gpu.func @twice_scan0(
// CHECK: gpu.func @no_state_scan0(
// CHECK: func.func @first(
// CHECK: gpu.launch_func @kernels::@first_scan0
// CHECK: func.func @second(
// CHECK: gpu.launch_func @kernels::@first_scan0
// CHECK: func.func @twice(
// CHECK: gpu.launch_func @kernels::@twice_scan0
// CHECK: func.func @no_state(
// CHECK: gpu.launch_func @kernels::@no_state_scan0
func.func @first(%q: tensor<2x9x4x16xf32>, %k: tensor<2x9x4x16xf32>, %v: tensor<2x9x4x16xf32>)
    -> (tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  return %o, %ht : tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
}

func.func @second(%a: tensor<2x9x4x16xf32>, %b: tensor<2x9x4x16xf32>, %c: tensor<2x9x4x16xf32>)
    -> (tensor<2x4x16x16xf32>, tensor<2x9x4x16xf32>) {
  %o, %ht = ejk.recurrent %c, %b, %a
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  return %ht, %o : tensor<2x4x16x16xf32>, tensor<2x9x4x16xf32>
}

func.func @twice(%q: tensor<2x9x4x16xf32>, %k: tensor<2x9x4x16xf32>)
    -> (tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %k
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  return %o, %ht : tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
}

func.func @no_state(%q: tensor<2x9x4x16xf32>, %k: tensor<2x9x4x16xf32>, %v: tensor<2x9x4x16xf32>)
    -> tensor<2x9x4x16xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  return %o : tensor<2x9x4x16xf32>
}
