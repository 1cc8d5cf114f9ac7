// RUN: ejk-opt %s --ejk-backward=function=f --ejk-hoist-reductions | FileCheck %s
// RUN: ejk-opt %s --ejk-backward=function=f --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward=function=f --ejk-hoist-reductions --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward=function=channels --ejk-hoist-reductions | FileCheck %s --check-prefix=KEPT

// Gates of a head, one from a sequence and one constant in time, with a gradient each: all
// that passes from the walk forward to the one back is a number per step, and the walk
// back carries two.

// CHECK-LABEL: func.func @f_vjp(
// CHECK:         ejk.scan save_every
// CHECK:           -> (tensor<1x37x2xf32>, tensor<1x37x2x8xf32>) saves(
// CHECK:           %[[PAIRED:.*]] = ejk.cancelling_pair {{.*}} : vector<8xf32>
// CHECK:           %[[TERM:.*]] = ejk.sum %[[PAIRED]] : vector<8xf32>
// CHECK:           ejk.yield {{.*}} outputs(%[[TERM]], %{{.*}} : f32, vector<8xf32>)
// CHECK:         ejk.scan reverse save_every
// CHECK:           states(%{{.*}} = %{{.*}} : tensor<1x2x8x16xf32>, %[[M:.*]] = zero : tensor<1x2xf32>, %[[SUM:.*]] = zero : tensor<1x2xf32>)
// CHECK:           %[[K:.*]] = ejk.sum %{{.*}} : vector<8xf32>
// CHECK:           %[[M1:.*]] = arith.subf %[[M]], %[[K]] : f32
// CHECK:           %[[M2:.*]] = ejk.checkpoint %[[M1]], %{{.*}} with %{{.*}} along head : f32, vector<8x16xf32>, vector<8x16xf32>
// CHECK:           %[[M3:.*]] = arith.addf %[[M2]], %{{.*}} : f32
// CHECK:           %[[D:.*]] = ejk.gate_gradient %[[M3]] of %{{.*}} zero_first : f32, f32
// CHECK:           %[[SUM1:.*]] = arith.addf %[[SUM]], %[[D]] : f32
// CHECK:           ejk.yield states(%{{.*}}, %[[M3]], %[[SUM1]] : vector<8x16xf32>, f32, f32) outputs(%{{.*}}, %{{.*}}, %[[D]] :
func.func @f(%q: tensor<1x37x2x8xf32>, %k: tensor<1x37x2x8xf32>, %v: tensor<1x37x2x16xf32>,
             %g: tensor<1x37x2xf32>, %gamma: tensor<2xf32>)
    -> (tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x37x2xf32>) g_gamma(%gamma : tensor<2xf32>)
      : tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>
      -> tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
  return %o, %ht : tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
}

// A gate per channel has a gradient per channel.
// KEPT-LABEL: func.func @channels_vjp(
// KEPT:         ejk.checkpoint {{.*}} along value : vector<8xf32>
func.func @channels(%q: tensor<1x37x2x8xf32>, %k: tensor<1x37x2x8xf32>, %v: tensor<1x37x2x16xf32>,
                    %gk: tensor<1x37x2x8xf32>) -> tensor<1x37x2x16xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x37x2x8xf32>)
      : tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>
      -> tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>
  return %o : tensor<1x37x2x16xf32>
}

func.func private @f_vjp(tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>,
                         tensor<1x37x2xf32>, tensor<2xf32>, tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
    -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>,
        tensor<2xf32>)

// Σ dg is dγ, and ht ⊙ dht passes all of a sequence.
func.func @check() {
  %q = check.random normal seed 1 : tensor<1x37x2x8xf32>
  %k = check.random normal seed 2 : tensor<1x37x2x8xf32>
  %v = check.random normal seed 3 : tensor<1x37x2x16xf32>
  %g = check.random log_gate seed 4 : tensor<1x37x2xf32>
  %gamma = check.random log_gate seed 5 : tensor<2xf32>
  %do = check.random normal seed 6 : tensor<1x37x2x16xf32>
  %dht = check.random normal seed 7 : tensor<1x2x8x16xf32>
  %dq, %dk, %dv, %dg, %dgamma = call @f_vjp(%q, %k, %v, %g, %gamma, %do, %dht)
      : (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>,
         tensor<2xf32>, tensor<1x37x2x16xf32>, tensor<1x2x8x16xf32>)
      -> (tensor<1x37x2x8xf32>, tensor<1x37x2x8xf32>, tensor<1x37x2x16xf32>, tensor<1x37x2xf32>,
          tensor<2xf32>)
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(h, n, t) -> (n, t, h)>, affine_map<(h, n, t) -> (h)>],
                         iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%dg : tensor<1x37x2xf32>) outs(%init : tensor<2xf32>) {
    ^bb0(%x: f32, %s: f32):
      %y = arith.addf %x, %s : f32
      linalg.yield %y : f32
    } -> tensor<2xf32>
  check.expect_close %dgamma, %sum max_relative 1.0e-12 : tensor<2xf32>
  return
}

// The sum's tensor may have static sizes where the state's has dynamic ones.
// RUN: ejk-opt %s --ejk-hoist-reductions | FileCheck %s --check-prefix=SIZES
// SIZES-LABEL: func.func @sizes(
// SIZES:         %[[SUM:.*]] = ejk.scan
// SIZES:           states(%{{.*}} = zero : tensor<?x3xf32>)
// SIZES:         %[[CAST:.*]] = tensor.cast %[[SUM]] : tensor<?x3xf32> to tensor<2x3xf32>
// SIZES:         return %[[CAST]]
func.func @sizes(%k: tensor<?x5x3x4xf32>) -> tensor<2x3xf32> {
  %n = ejk.scan sequences(%kt = %k : tensor<?x5x3x4xf32>)
      states(%S = zero : tensor<?x3x4xf32>) {
    %S1 = arith.addf %S, %kt : vector<4xf32>
    ejk.yield states(%S1 : vector<4xf32>)
  }
  %c0 = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x3xf32>
  %zero = linalg.fill ins(%c0 : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(b, h, c) -> (b, h, c)>, affine_map<(b, h, c) -> (b, h)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%n : tensor<?x3x4xf32>) outs(%zero : tensor<2x3xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<2x3xf32>
  return %sum : tensor<2x3xf32>
}

// A state that starts from given vectors stays a vector, even where only its sum over channels is used.
// RUN: ejk-opt %s --ejk-hoist-reductions | FileCheck %s --check-prefix=GIVEN
// GIVEN-LABEL: func.func @given(
// GIVEN:         states(%{{.*}} = %{{.*}} : tensor<2x3x4xf32>)
func.func @given(%k: tensor<2x5x3x4xf32>, %n0: tensor<2x3x4xf32>) -> tensor<2x3xf32> {
  %n = ejk.scan sequences(%kt = %k : tensor<2x5x3x4xf32>)
      states(%S = %n0 : tensor<2x3x4xf32>) {
    %S1 = arith.addf %S, %kt : vector<4xf32>
    ejk.yield states(%S1 : vector<4xf32>)
  }
  %c0 = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x3xf32>
  %zero = linalg.fill ins(%c0 : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(b, h, c) -> (b, h, c)>, affine_map<(b, h, c) -> (b, h)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%n : tensor<2x3x4xf32>) outs(%zero : tensor<2x3xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<2x3xf32>
  return %sum : tensor<2x3xf32>
}

// A sum over channels whose result is transposed is no state of numbers: the state stays a vector.
// RUN: ejk-opt %s --ejk-hoist-reductions | FileCheck %s --check-prefix=TRANSPOSED
// TRANSPOSED-LABEL: func.func @check_transposed(
// TRANSPOSED:         states(%{{.*}} = zero : tensor<3x3x4xf32>)
func.func @check_transposed() {
  %k = check.random normal seed 1 : tensor<3x5x3x4xf32>
  %n = ejk.scan sequences(%kt = %k : tensor<3x5x3x4xf32>)
      states(%S = zero : tensor<3x3x4xf32>) {
    %S1 = arith.addf %S, %kt : vector<4xf32>
    ejk.yield states(%S1 : vector<4xf32>)
  }
  %c0 = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x3xf32>
  %zero = linalg.fill ins(%c0 : f32) outs(%empty : tensor<3x3xf32>) -> tensor<3x3xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(h, b, c) -> (b, h, c)>, affine_map<(h, b, c) -> (h, b)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%n : tensor<3x3x4xf32>) outs(%zero : tensor<3x3xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<3x3xf32>
  // All rows at once, in the same order.
  %wanted = linalg.generic {
      indexing_maps = [affine_map<(h, b, t, c) -> (b, t, h, c)>, affine_map<(h, b, t, c) -> (h, b)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%k : tensor<3x5x3x4xf32>) outs(%zero : tensor<3x3xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<3x3xf32>
  check.expect_close %sum, %wanted max_relative 1.0e-13 : tensor<3x3xf32>
  return
}
