// RUN: ejk-opt %s --ejk-backward=function=f --ejk-sum-early --ejk-include-diagonals | FileCheck %s
// RUN: ejk-opt %s --ejk-backward=function=channels --ejk-sum-early --ejk-include-diagonals | FileCheck %s --check-prefix=KEPT
// Numbers stay, step by step and by chunks of which two have a saved state in common.
// RUN: ejk-opt %s --ejk-backward --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward --ejk-sum-early --ejk-include-diagonals --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-backward --ejk-sum-early --ejk-include-diagonals --ejk-chunk="chunk=16 force" --ejk-interpret -o /dev/null 2>/dev/null
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=16 --ejk-sum-early --ejk-include-diagonals --ejk-chunk="chunk=16 force" --ejk-interpret -o /dev/null 2>/dev/null

// What is read is what the state's gradients are, once in each walk, and the saved state
// is the next one.

// CHECK-LABEL: func.func @f_vjp(
// CHECK:         ejk.scan save_every
// CHECK:           %[[S:.*]] = ejk.outer_add
// CHECK:           %[[DQ:.*]] = ejk.read %[[S]], %{{.*}} along value
// CHECK:           %[[P:.*]] = arith.mulf %{{.*}}, %[[DQ]] {ejk.pairing}
// CHECK:           ejk.yield states(%[[S]] : {{.*}}) outputs({{.*}}) saves(%[[S]] :
// CHECK:         ejk.scan reverse save_every
// CHECK:           states(%[[A:.*]] = %{{.*}} : tensor<3x2x8x16xf32>, %[[M:.*]] = zero
// CHECK-DAG:       %[[A1:.*]] = ejk.outer_add %[[A]]
// CHECK-DAG:       %[[DK:.*]] = ejk.read %[[A1]], %{{.*}} along value
// CHECK-DAG:       %[[PK:.*]] = arith.mulf %{{.*}}, %[[DK]] {ejk.pairing}
// CHECK-DAG:       %[[C:.*]] = ejk.sum %[[PK]]
// CHECK-DAG:       %[[M1:.*]] = ejk.anchor %[[M]], %[[A]] with
// CHECK:           arith.subf %[[M1]], %[[C]] : f32
func.func @f(%q: tensor<1x53x2x8xf32>, %k: tensor<1x53x2x8xf32>, %v: tensor<1x53x2x16xf32>,
    %g: tensor<1x53x2xf32>, %h0: tensor<3x2x8x16xf32>, %cu: tensor<4xi32>)
    -> (tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x53x2xf32>) initial_state(%h0 : tensor<3x2x8x16xf32>)
      cu_seqlens(%cu : tensor<4xi32>)
      : tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>
      -> tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
  return %o, %ht : tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
}
// The same backwards.
func.func @b(%q: tensor<1x53x2x8xf32>, %k: tensor<1x53x2x8xf32>, %v: tensor<1x53x2x16xf32>,
    %g: tensor<1x53x2xf32>, %h0: tensor<3x2x8x16xf32>, %cu: tensor<4xi32>)
    -> (tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x53x2xf32>) initial_state(%h0 : tensor<3x2x8x16xf32>)
      cu_seqlens(%cu : tensor<4xi32>) {reverse}
      : tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>
      -> tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
  return %o, %ht : tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
}

// A gate per channel takes nothing away that is in a sum over all channels.
// KEPT-LABEL: func.func @channels_vjp(
// KEPT:         %[[D:.*]] = ejk.decay
// KEPT:         %[[R:.*]] = ejk.read %[[D]], %{{.*}} along value
// KEPT:         arith.mulf %{{.*}}, %[[R]] {ejk.pairing}
// KEPT:         saves(%[[D]] :
func.func @channels(%q: tensor<1x53x2x8xf32>, %k: tensor<1x53x2x8xf32>, %v: tensor<1x53x2x16xf32>,
    %gk: tensor<1x53x2x8xf32>, %h0: tensor<3x2x8x16xf32>, %cu: tensor<4xi32>)
    -> (tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x53x2x8xf32>) initial_state(%h0 : tensor<3x2x8x16xf32>)
      cu_seqlens(%cu : tensor<4xi32>)
      : tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>
      -> tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
  return %o, %ht : tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
}
func.func @channels_back(%q: tensor<1x53x2x8xf32>, %k: tensor<1x53x2x8xf32>, %v: tensor<1x53x2x16xf32>,
    %gk: tensor<1x53x2x8xf32>, %h0: tensor<3x2x8x16xf32>, %cu: tensor<4xi32>)
    -> (tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x53x2x8xf32>) initial_state(%h0 : tensor<3x2x8x16xf32>)
      cu_seqlens(%cu : tensor<4xi32>) {reverse}
      : tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>
      -> tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
  return %o, %ht : tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>
}

func.func private @f_vjp(tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>,
    tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
    -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>, tensor<3x2x8x16xf32>)
func.func private @b_vjp(tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>,
    tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
    -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>, tensor<3x2x8x16xf32>)
func.func private @channels_vjp(tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>,
    tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
    -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>, tensor<3x2x8x16xf32>)
func.func private @channels_back_vjp(tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>,
    tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
    -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>, tensor<3x2x8x16xf32>)

// The same gate in every channel: the gradients are sums of the channels'.
func.func @check() {
  %q = check.random normal seed 1 : tensor<1x53x2x8xf32>
  %k = check.random normal seed 2 : tensor<1x53x2x8xf32>
  %v = check.random normal seed 3 : tensor<1x53x2x16xf32>
  %g = check.random log_gate seed 4 : tensor<1x53x2xf32>
  %h0 = check.random normal seed 5 : tensor<3x2x8x16xf32>
  %do = check.random normal seed 6 : tensor<1x53x2x16xf32>
  %dht = check.random normal seed 7 : tensor<3x2x8x16xf32>
  %cu = arith.constant dense<[0, 16, 16, 53]> : tensor<4xi32>
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<1x53x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%none : tensor<1x53x2xf32>) -> tensor<1x53x2xf32>
  %empty = tensor.empty() : tensor<1x53x2x8xf32>
  %gk = linalg.generic {indexing_maps = [affine_map<(n, t, h, c) -> (n, t, h)>, affine_map<(n, t, h, c) -> (n, t, h, c)>],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%g : tensor<1x53x2xf32>) outs(%empty : tensor<1x53x2x8xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    } -> tensor<1x53x2x8xf32>
  %f:5 = call @f_vjp(%q, %k, %v, %g, %h0, %cu, %do, %dht)
      : (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>,
         tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
      -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>, tensor<3x2x8x16xf32>)
  %fc:5 = call @channels_vjp(%q, %k, %v, %gk, %h0, %cu, %do, %dht)
      : (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>,
         tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
      -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>, tensor<3x2x8x16xf32>)
  check.expect_close %f#0, %fc#0 max_relative 1.0e-11 : tensor<1x53x2x8xf32>
  check.expect_close %f#1, %fc#1 max_relative 1.0e-11 : tensor<1x53x2x8xf32>
  check.expect_close %f#2, %fc#2 max_relative 1.0e-11 : tensor<1x53x2x16xf32>
  check.expect_close %f#4, %fc#4 max_relative 1.0e-11 : tensor<3x2x8x16xf32>
  %fcg = linalg.generic {indexing_maps = [affine_map<(n, t, h, c) -> (n, t, h, c)>, affine_map<(n, t, h, c) -> (n, t, h)>],
                        iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%fc#3 : tensor<1x53x2x8xf32>) outs(%zeros : tensor<1x53x2xf32>) {
    ^bb0(%x: f32, %s: f32):
      %z = arith.addf %x, %s : f32
      linalg.yield %z : f32
    } -> tensor<1x53x2xf32>
  check.expect_close %f#3, %fcg max_relative 1.0e-11 : tensor<1x53x2xf32>
  %b:5 = call @b_vjp(%q, %k, %v, %g, %h0, %cu, %do, %dht)
      : (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>,
         tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
      -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2xf32>, tensor<3x2x8x16xf32>)
  %bc:5 = call @channels_back_vjp(%q, %k, %v, %gk, %h0, %cu, %do, %dht)
      : (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>,
         tensor<3x2x8x16xf32>, tensor<4xi32>, tensor<1x53x2x16xf32>, tensor<3x2x8x16xf32>)
      -> (tensor<1x53x2x8xf32>, tensor<1x53x2x8xf32>, tensor<1x53x2x16xf32>, tensor<1x53x2x8xf32>, tensor<3x2x8x16xf32>)
  check.expect_close %b#0, %bc#0 max_relative 1.0e-11 : tensor<1x53x2x8xf32>
  check.expect_close %b#1, %bc#1 max_relative 1.0e-11 : tensor<1x53x2x8xf32>
  check.expect_close %b#2, %bc#2 max_relative 1.0e-11 : tensor<1x53x2x16xf32>
  check.expect_close %b#4, %bc#4 max_relative 1.0e-11 : tensor<3x2x8x16xf32>
  %bcg = linalg.generic {indexing_maps = [affine_map<(n, t, h, c) -> (n, t, h, c)>, affine_map<(n, t, h, c) -> (n, t, h)>],
                        iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%bc#3 : tensor<1x53x2x8xf32>) outs(%zeros : tensor<1x53x2xf32>) {
    ^bb0(%x: f32, %s: f32):
      %z = arith.addf %x, %s : f32
      linalg.yield %z : f32
    } -> tensor<1x53x2xf32>
  check.expect_close %b#3, %bcg max_relative 1.0e-11 : tensor<1x53x2xf32>
  return
}
