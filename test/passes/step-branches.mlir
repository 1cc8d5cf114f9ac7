// RUN: ejk-opt %s --ejk-backward=function=guarded --ejk-interpret
// RUN: ejk-opt %s --canonicalize | FileCheck %s
// The derivative of `scf.if` is that of the branch taken. The root's and the logarithm's
// are not finite at 0 and below; nothing of them reaches the gradient there, though both
// branches are computed.

// CHECK-LABEL: func.func @guarded(
// CHECK: %[[C:.*]] = arith.cmpf ogt
// CHECK: %[[X:.*]] = arith.select %[[C]], %{{.*}}, %cst
// CHECK: %[[R:.*]] = math.sqrt %[[X]]
// CHECK: %[[L:.*]] = math.log %[[R]]
// CHECK: arith.select %[[C]], %[[L]], %{{.*}}
func.func @guarded(%x: tensor<1x4x1xf32>) -> tensor<1x4x1xf32> {
  %o = ejk.scan sequences(%xt = %x : tensor<1x4x1xf32>) -> (tensor<1x4x1xf32>) {
    %zero = arith.constant 0.0 : f32
    %positive = arith.cmpf ogt, %xt, %zero : f32
    %y = scf.if %positive -> f32 {
      %root = math.sqrt %xt : f32
      %l = math.log %root : f32
      scf.yield %l : f32
    } else {
      scf.yield %zero : f32
    }
    ejk.yield outputs(%y : f32)
  }
  return %o : tensor<1x4x1xf32>
}

func.func private @guarded_vjp(%x: tensor<1x4x1xf32>, %do: tensor<1x4x1xf32>) -> tensor<1x4x1xf32>

func.func @check_guarded() {
  %x = arith.constant dense<[[[-1.0], [0.0], [1.0], [2.0]]]> : tensor<1x4x1xf32>
  %o = func.call @guarded(%x) : (tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %e = arith.constant dense<[[[0.0], [0.0], [0.0], [0.34657359]]]> : tensor<1x4x1xf32>
  check.expect_close %o, %e max_relative 1.0e-7 : tensor<1x4x1xf32>
  return
}

func.func @check_gradient() {
  %x = arith.constant dense<[[[-1.0], [0.0], [1.0], [2.0]]]> : tensor<1x4x1xf32>
  %one = arith.constant dense<1.0> : tensor<1x4x1xf32>
  %dx = func.call @guarded_vjp(%x, %one) : (tensor<1x4x1xf32>, tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %e = arith.constant dense<[[[0.0], [0.0], [0.5], [0.25]]]> : tensor<1x4x1xf32>
  check.expect_close %dx, %e max_relative 1.0e-7 : tensor<1x4x1xf32>
  return
}
