// Ops between recurrences that compute the same have one kernel, in one function and in several. Other
// constants, other types or other ops make another kernel; tensors in another order are arguments in another order.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-gpu | FileCheck %s

// CHECK: gpu.func @first_map0(
// CHECK-NOT: @second_map0(
// CHECK: gpu.func @three_map0(
// CHECK: gpu.func @four_map0(
// CHECK: gpu.func @other_type_map0(
// CHECK: gpu.func @other_op_map0(
// CHECK-NOT: gpu.func
// CHECK: func.func @first(
// CHECK: gpu.launch_func @kernels::@first_map0
// CHECK: func.func @second(
// CHECK: gpu.launch_func @kernels::@first_map0
// CHECK: func.func @three(
// CHECK: gpu.launch_func @kernels::@three_map0
// CHECK: func.func @four(
// CHECK: gpu.launch_func @kernels::@four_map0
// CHECK: func.func @other_type(
// CHECK: gpu.launch_func @kernels::@other_type_map0
// CHECK: func.func @other_order(%[[X:.*]]: memref<?xf32> {{.*}}, %[[Y:.*]]: memref<?xf32> {{.*}}, %{{.*}}: memref
// CHECK: memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: gpu.launch_func @kernels::@first_map0
// CHECK: func.func @other_op(
// CHECK: gpu.launch_func @kernels::@other_op_map0
func.func @first(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = arith.subf %x, %y : tensor<?xf32>
  %e = math.exp %z : tensor<?xf32>
  return %e : tensor<?xf32>
}

func.func @second(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c = arith.subf %a, %b : tensor<?xf32>
  %d = math.exp %c : tensor<?xf32>
  return %d : tensor<?xf32>
}

func.func @three(%x: tensor<64xf32>) -> tensor<64xf32> {
  %three = arith.constant dense<3.0> : tensor<64xf32>
  %y = arith.mulf %x, %three : tensor<64xf32>
  return %y : tensor<64xf32>
}

func.func @four(%x: tensor<64xf32>) -> tensor<64xf32> {
  %four = arith.constant dense<4.0> : tensor<64xf32>
  %y = arith.mulf %x, %four : tensor<64xf32>
  return %y : tensor<64xf32>
}

func.func @other_type(%x: tensor<?xf16>, %y: tensor<?xf16>) -> tensor<?xf16> {
  %z = arith.subf %x, %y : tensor<?xf16>
  %e = math.exp %z : tensor<?xf16>
  return %e : tensor<?xf16>
}

func.func @other_order(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = arith.subf %y, %x : tensor<?xf32>
  %e = math.exp %z : tensor<?xf32>
  return %e : tensor<?xf32>
}

func.func @other_op(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = arith.subf %x, %y : tensor<?xf32>
  %e = math.sin %z : tensor<?xf32>
  return %e : tensor<?xf32>
}
