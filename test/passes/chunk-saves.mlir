// Saved states of walks by chunks: that which a chunk is entered with, of each chunk or of
// the last of several.
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=64 --ejk-to-tile 2>/dev/null | FileCheck %s
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=192 --ejk-to-tile 2>/dev/null | FileCheck %s --check-prefix=SEVERAL

// Each chunk's first state, rounded, before anything else; what the walk back starts its
// sum from holds what is taken away again.
// CHECK-LABEL: func.func @narrow_vjp(
// CHECK:         tile.program chunk 64 save_every 64
// CHECK-SAME:    saves(tensor<?x2x32x48xbf16>)
// CHECK:           scf.for {{.*}} iter_args(%[[S:.*]] = %
// CHECK:             %[[R:.*]] = arith.truncf %[[S]]
// CHECK:             tile.store_slot %[[R]]
// CHECK:             tile.dot
// CHECK:         tile.program chunk 64 save_every 64
// CHECK:           tile.load_slot {{.*}} <vector<32x48xbf16>> -> vector<32x64xbf16>

// SEVERAL-LABEL: func.func @narrow_vjp(
// SEVERAL:         tile.program chunk 64 save_every 192
// SEVERAL:           scf.for {{.*}} iter_args(%[[S:.*]] = %
// SEVERAL:             scf.if
// SEVERAL:               %[[W:.*]] = arith.truncf %[[S]]
// SEVERAL:               tile.store_slot %[[W]]
// SEVERAL:             tile.dot
// SEVERAL:         tile.program chunk 64 save_every 192
// SEVERAL:           %[[L:.*]] = tile.load_slot
// SEVERAL:           %[[X:.*]] = arith.extf %[[L]]
// SEVERAL:           tile.guarded
// SEVERAL:             arith.mulf %{{.*}}, %[[X]]
// SEVERAL:             arith.select

// In f64 rounding to narrow types changes nothing:
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-interpret -o /dev/null 2>/dev/null
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=48 --ejk-to-tile --ejk-interpret -o /dev/null 2>/dev/null
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=192 --ejk-to-tile --ejk-interpret -o /dev/null 2>/dev/null
// RUN: ejk-opt %s --ejk-backward=checkpoint-every=96 --ejk-hoist-reductions --ejk-chunk=chunk=32 --ejk-interpret -o /dev/null 2>/dev/null
// As a kernel rounds, one state per chunk leaves what one rounding of each product does,
// 4e-3; one for two chunks 1.1e-2 in a parameter's gradient, which adds them up.
// RUN: sed 's/max_relative 1.0e-10/max_relative 4.0e-3/' %s > %t.native.mlir
// RUN: ejk-opt %t.native.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-interpret=precision=native -o /dev/null 2>/dev/null
// RUN: ejk-opt %t.native.mlir --ejk-backward=checkpoint-every=32 --ejk-hoist-reductions --ejk-narrow-saves --ejk-chunk=chunk=32 --ejk-interpret=precision=native -o /dev/null 2>/dev/null
// RUN: sed 's/max_relative 1.0e-10/max_relative 1.1e-2/' %s > %t.two.mlir
// RUN: ejk-opt %t.two.mlir --ejk-backward=checkpoint-every=128 --ejk-hoist-reductions --ejk-narrow-saves --ejk-chunk --ejk-interpret=precision=native -o /dev/null 2>/dev/null

func.func @narrow(%q: tensor<1x200x2x32xbf16>, %k: tensor<1x200x2x32xbf16>, %v: tensor<1x200x2x48xbf16>,
    %g: tensor<1x200x2xf32>, %gamma: tensor<2xf32>, %gk: tensor<1x200x2x32xf32>, %h0: tensor<4x2x32x48xf32>, %cu: tensor<5xi32>)
    -> (tensor<1x200x2x48xbf16>, tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x200x2xf32>) g_gamma(%gamma : tensor<2xf32>)
      initial_state(%h0 : tensor<4x2x32x48xf32>) cu_seqlens(%cu : tensor<5xi32>)
      : tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>
      -> tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>
  %p, %pt = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x200x2x32xf32>) cu_seqlens(%cu : tensor<5xi32>) {reverse}
      : tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>
      -> tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>
  return %o, %p, %ht : tensor<1x200x2x48xbf16>, tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>
}
func.func @wide(%q: tensor<1x200x2x32xf32>, %k: tensor<1x200x2x32xf32>, %v: tensor<1x200x2x48xf32>,
    %g: tensor<1x200x2xf32>, %gamma: tensor<2xf32>, %gk: tensor<1x200x2x32xf32>, %h0: tensor<4x2x32x48xf32>, %cu: tensor<5xi32>)
    -> (tensor<1x200x2x48xf32>, tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x200x2xf32>) g_gamma(%gamma : tensor<2xf32>)
      initial_state(%h0 : tensor<4x2x32x48xf32>) cu_seqlens(%cu : tensor<5xi32>)
      : tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>
      -> tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>
  %p, %pt = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x200x2x32xf32>) cu_seqlens(%cu : tensor<5xi32>) {reverse}
      : tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>
      -> tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>
  return %o, %p, %ht : tensor<1x200x2x48xf32>, tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>
}

func.func private @narrow_vjp(tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>, tensor<5xi32>, tensor<1x200x2x48xbf16>, tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>) -> (tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>)
func.func private @wide_vjp(tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>, tensor<5xi32>, tensor<1x200x2x48xf32>, tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>) -> (tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>)

func.func @check() {
  %q = check.random normal seed 1 : tensor<1x200x2x32xbf16>
  %qw = arith.extf %q : tensor<1x200x2x32xbf16> to tensor<1x200x2x32xf32>
  %k = check.random normal seed 2 : tensor<1x200x2x32xbf16>
  %kw = arith.extf %k : tensor<1x200x2x32xbf16> to tensor<1x200x2x32xf32>
  %v = check.random normal seed 3 : tensor<1x200x2x48xbf16>
  %vw = arith.extf %v : tensor<1x200x2x48xbf16> to tensor<1x200x2x48xf32>
  %do = check.random normal seed 4 : tensor<1x200x2x48xbf16>
  %dow = arith.extf %do : tensor<1x200x2x48xbf16> to tensor<1x200x2x48xf32>
  %dp = check.random normal seed 5 : tensor<1x200x2x48xbf16>
  %dpw = arith.extf %dp : tensor<1x200x2x48xbf16> to tensor<1x200x2x48xf32>
  %g = check.random log_gate seed 11 : tensor<1x200x2xf32>
  %gamma = check.random log_gate seed 12 : tensor<2xf32>
  %gk = check.random log_gate seed 13 : tensor<1x200x2x32xf32>
  %h0 = check.random normal seed 14 : tensor<4x2x32x48xf32>
  %dht = check.random normal seed 15 : tensor<4x2x32x48xf32>
  // An empty sequence, and one that ends within a chunk.
  %cu = arith.constant dense<[0, 70, 70, 199, 200]> : tensor<5xi32>
  %n:7 = call @narrow_vjp(%q, %k, %v, %g, %gamma, %gk, %h0, %cu, %do, %dp, %dht)
      : (tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>, tensor<5xi32>, tensor<1x200x2x48xbf16>, tensor<1x200x2x48xbf16>, tensor<4x2x32x48xf32>) -> (tensor<1x200x2x32xbf16>, tensor<1x200x2x32xbf16>, tensor<1x200x2x48xbf16>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>)
  %w:7 = call @wide_vjp(%qw, %kw, %vw, %g, %gamma, %gk, %h0, %cu, %dow, %dpw, %dht)
      : (tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>, tensor<5xi32>, tensor<1x200x2x48xf32>, tensor<1x200x2x48xf32>, tensor<4x2x32x48xf32>) -> (tensor<1x200x2x32xf32>, tensor<1x200x2x32xf32>, tensor<1x200x2x48xf32>, tensor<1x200x2xf32>, tensor<2xf32>, tensor<1x200x2x32xf32>, tensor<4x2x32x48xf32>)
  %n0 = arith.extf %n#0 : tensor<1x200x2x32xbf16> to tensor<1x200x2x32xf32>
  check.expect_close %n0, %w#0 max_relative 1.0e-10 : tensor<1x200x2x32xf32>
  %n1 = arith.extf %n#1 : tensor<1x200x2x32xbf16> to tensor<1x200x2x32xf32>
  check.expect_close %n1, %w#1 max_relative 1.0e-10 : tensor<1x200x2x32xf32>
  %n2 = arith.extf %n#2 : tensor<1x200x2x48xbf16> to tensor<1x200x2x48xf32>
  check.expect_close %n2, %w#2 max_relative 1.0e-10 : tensor<1x200x2x48xf32>
  check.expect_close %n#3, %w#3 max_relative 1.0e-10 : tensor<1x200x2xf32>
  check.expect_close %n#4, %w#4 max_relative 1.0e-10 : tensor<2xf32>
  check.expect_close %n#5, %w#5 max_relative 1.0e-10 : tensor<1x200x2x32xf32>
  check.expect_close %n#6, %w#6 max_relative 1.0e-10 : tensor<4x2x32x48xf32>
  return
}
