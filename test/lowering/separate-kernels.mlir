// Each kernel gets a module of its own, with the globals that it uses; launches follow.
// RUN: ejk-opt %s --ejk-separate-kernels | FileCheck %s

// CHECK:      gpu.module @kernels [#nvvm.target<chip = "sm_90a">] {
// CHECK-NEXT:   llvm.mlir.global external @both()
// CHECK-NEXT:   gpu.func @first
// CHECK-NOT:    gpu.func
// CHECK:      gpu.module @second [#nvvm.target<chip = "sm_90a">] {
// CHECK-NEXT:   llvm.mlir.global internal @its_own()
// CHECK-NEXT:   llvm.mlir.global external @both()
// CHECK-NEXT:   gpu.func @second
// CHECK:      gpu.module @third [#nvvm.target<chip = "sm_90a">] {
// CHECK-NEXT:   gpu.func @third
module attributes {gpu.container_module} {
gpu.module @kernels [#nvvm.target<chip = "sm_90a">] {
  llvm.mlir.global external @both() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  llvm.mlir.global internal @its_own() {addr_space = 3 : i32} : !llvm.array<16 x i8>
  gpu.func @first(%size: i64) kernel {
    %0 = llvm.mlir.addressof @both : !llvm.ptr<3>
    llvm.store %size, %0 : i64, !llvm.ptr<3>
    gpu.return
  }
  gpu.func @second(%size: i64) kernel {
    %0 = llvm.mlir.addressof @its_own : !llvm.ptr<3>
    %1 = llvm.mlir.addressof @both : !llvm.ptr<3>
    %2 = llvm.load %1 : !llvm.ptr<3> -> i64
    llvm.store %2, %0 : i64, !llvm.ptr<3>
    gpu.return
  }
  gpu.func @third(%size: i64) kernel {
    gpu.return
  }
}

// CHECK:       func.func @launches
// CHECK:         gpu.launch_func @third::@third
// CHECK:         gpu.launch_func @kernels::@first
// CHECK:         gpu.launch_func @second::@second
// CHECK:         gpu.launch_func @third::@third
func.func @launches(%size: i64) {
  %c1 = arith.constant 1 : index
  gpu.launch_func @kernels::@third blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%size : i64)
  gpu.launch_func @kernels::@first blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%size : i64)
  gpu.launch_func @kernels::@second blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%size : i64)
  gpu.launch_func @kernels::@third blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%size : i64)
  return
}
}
