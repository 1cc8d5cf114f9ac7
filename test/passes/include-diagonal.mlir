// RUN: ejk-opt %s --ejk-backward=function=f --ejk-hoist-reductions --ejk-include-diagonal | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-hoist-reductions --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal '--ejk-chunk=force chunk=16' --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward=function=channels --ejk-hoist-reductions --ejk-include-diagonal | FileCheck %s --check-prefix=KEPT

// What only sums up is read in front of the outer product, gradients of vectors behind it;
// the step's own part is not made by itself any more.

// CHECK-LABEL: func.func @f_vjp(
// CHECK:         ejk.scan save_every
// CHECK-NOT:       vector.broadcast
// CHECK:           %[[D:.*]] = ejk.decay
// CHECK:           %[[S:.*]] = ejk.outer_add %[[D]],
// CHECK-DAG:       %[[R:.*]] = ejk.read %[[D]], %[[O:.*]] along value
// CHECK-DAG:       ejk.cancelling_pair {{.*}}%[[R]]{{.*}}
// CHECK-DAG:       %[[DQ:.*]] = ejk.read %[[S]], %[[O]] along value
// CHECK:         ejk.scan reverse save_every
// CHECK-NOT:       vector.broadcast
// CHECK:           %[[T:.*]] = ejk.outer_add %[[A:.*]], %{{.*}}, %{{.*}} :
// CHECK-DAG:       ejk.read %[[A]], %[[V:.*]] along value
// CHECK-DAG:       ejk.read %[[T]], %[[V]] along value
func.func @f(%q: tensor<1x37x2x8xf32>, %k: tensor<1x37x2x8xf32>, %v: tensor<1x37x2x16xf32>,
             %g: tensor<1x37x2xf32>) -> (tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x37x2xf32>)
      : tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>
      -> tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
  return %o, %ht : tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
}

// A gate per channel asks for more of a read than a sum.
// KEPT-LABEL: func.func @channels_vjp(
// KEPT:         vector.broadcast
func.func @channels(%q: tensor<1x37x2x8xf32>, %k: tensor<1x37x2x8xf32>, %v: tensor<1x37x2x16xf32>,
                    %gk: tensor<1x37x2x8xf32>) -> (tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x37x2x8xf32>)
      : tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>
      -> tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
  return %o, %ht : tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
}

func.func private @f_vjp(tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>,
                         tensor<1x37x2xf32>, tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
    -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>)
func.func private @channels_vjp(
    tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2x8xf32>,
    tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
    -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2x8xf32>)

// A head's gate is one that all of its channels have; its gradient is the sum of theirs.
func.func @check() {
  %q = check.random normal seed 1 : tensor<1x37x2x8xf32>
  %k = check.random normal seed 2 : tensor<1x37x2x8xf32>
  %v = check.random normal seed 3 : tensor<1x37x2x16xf32>
  %g = check.random log_gate seed 4 : tensor<1x37x2xf32>
  %do = check.random normal seed 5 : tensor<1x37x2x16xf32>
  %dht = check.random normal seed 6 : tensor<1x2x8x16xf32>
  %none = tensor.empty() : tensor<1x37x2x8xf32>
  %gk = linalg.broadcast ins(%g : tensor<1x37x2xf32>) outs(%none : tensor<1x37x2x8xf32>)
      dimensions = [3]
  %dq, %dk, %dv, %dg = call @f_vjp(%q, %k, %v, %g, %do, %dht)
      : (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>,
         tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
      -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>)
  %eq, %ek, %ev, %egk = call @channels_vjp(%q, %k, %v, %gk, %do, %dht)
      : (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2x8xf32>,
         tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
      -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2x8xf32>)
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x37x2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x37x2xf32>) -> tensor<1x37x2xf32>
  %eg = linalg.reduce ins(%egk : tensor<1x37x2x8xf32>) outs(%init : tensor<1x37x2xf32>)
      dimensions = [3]
    (%x: f32, %s: f32) {
      %y = arith.addf %x, %s : f32
      linalg.yield %y : f32
    }
  check.expect_close %dq, %eq max_relative 1.0e-12 : tensor<1x37x2x8xf32>
  check.expect_close %dk, %ek max_relative 1.0e-12 : tensor<1x37x2x8xf32>
  check.expect_close %dv, %ev max_relative 1.0e-12 : tensor<1x37x2x16xf32>
  check.expect_close %dg, %eg max_relative 1.0e-12 : tensor<1x37x2xf32>
  return
}
