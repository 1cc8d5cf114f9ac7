// RUN: ejk-opt %s --ejk-to-nvvm | FileCheck %s

// Two scf.if ops on one condition become one branch.
gpu.module @kernels {
  // CHECK-LABEL: @two_ifs
  // CHECK: llvm.cond_br
  // CHECK-NOT: llvm.cond_br
  // CHECK: gpu.return
  gpu.func @two_ifs(%memory: memref<4xf32>, %n: i32) kernel {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1.0 : f32
    %i0 = arith.constant 0 : index
    %i1 = arith.constant 1 : index
    %first = arith.cmpi sgt, %n, %zero : i32
    scf.if %first {
      memref.store %one, %memory[%i0] : memref<4xf32>
    }
    scf.if %first {
      memref.store %one, %memory[%i1] : memref<4xf32>
    }
    gpu.return
  }
}
