// RUN: ejk-opt %s --pass-pipeline="builtin.module(gpu.module(ejk-legalize-kernel-math))" --split-input-file --verify-diagnostics | FileCheck %s

// What is one instruction becomes LLVM's intrinsic; what is none, a polynomial.
gpu.module @kernels {
  // CHECK-LABEL: func @instructions(
  func.func @instructions(%x: f32, %v: vector<4xf32>) -> (f32, vector<4xf32>) {
    // CHECK: llvm.call_intrinsic "llvm.fma.f32"
    %a = math.fma %x, %x, %x : f32
    // CHECK: llvm.call_intrinsic "llvm.minnum.f32"
    %m = arith.minnumf %a, %x : f32
    // CHECK: llvm.call_intrinsic "llvm.sqrt.v4f32"
    %b = math.sqrt %v : vector<4xf32>
    return %m, %b : f32, vector<4xf32>
  }

  // The exponential of a gate: no library call, and -inf gives 0.
  // CHECK-LABEL: func @gate(
  // CHECK-NOT: math.
  // CHECK: llvm.call_intrinsic "llvm.fma.v4f32"
  // CHECK: arith.select
  // CHECK-NOT: math.
  // CHECK: return
  func.func @gate(%x: vector<4xf32>) -> vector<4xf32> {
    %e = math.exp %x : vector<4xf32>
    return %e : vector<4xf32>
  }

  // What only large arguments need is in a branch.
  // CHECK-LABEL: func @large(
  // CHECK: %[[LARGE:.*]] = arith.cmpf ugt, %{{.*}} : vector<4xf32>
  // CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[LARGE]]
  // CHECK: scf.if %[[ANY]]
  // CHECK: arith.muli {{.*}} : vector<4xi64>
  // CHECK: } else {
  // CHECK-NOT: i64
  // CHECK: return
  func.func @large(%x: vector<4xf32>) -> vector<4xf32> {
    %s = math.sin %x : vector<4xf32>
    return %s : vector<4xf32>
  }

  // Narrow arithmetic is f32 arithmetic, rounded where it ends.
  // CHECK-LABEL: func @narrow(
  // CHECK-SAME: %[[X:.*]]: bf16, %[[Y:.*]]: bf16
  // CHECK-DAG: %[[XW:.*]] = arith.extf %[[X]]{{.*}} : bf16 to f32
  // CHECK-DAG: %[[YW:.*]] = arith.extf %[[Y]]{{.*}} : bf16 to f32
  // CHECK: arith.addf %[[XW]], %[[YW]] : f32
  // CHECK-NOT: math.tanh
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  // CHECK: return
  func.func @narrow(%x: bf16, %y: bf16) -> bf16 {
    %s = arith.addf %x, %y : bf16
    %t = math.tanh %s : bf16
    return %t : bf16
  }
}

// -----

gpu.module @kernels {
  func.func @no_form(%x: i32) -> i32 {
    // expected-error @+1 {{'math.ipowi' on 'i32' has no form in a kernel; write it with others of math or arith}}
    %n = math.ipowi %x, %x : i32
    return %n : i32
  }
}
