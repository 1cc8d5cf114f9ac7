// RUN: ejk-opt %s --ejk-sum-in-turn | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-sum-in-turn --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-sum-in-turn --ejk-assign-tile-layouts --ejk-plan-memory --ejk-take-turns --ejk-check-races \
// RUN:   | FileCheck %s --check-prefix=TURNS
// RUN: ejk-opt %s --ejk-sum-in-turn --ejk-assign-tile-layouts --ejk-plan-memory --ejk-take-turns --ejk-interpret -o /dev/null
// RUN: not ejk-opt %s --ejk-sum-in-turn --ejk-assign-tile-layouts --ejk-plan-memory --ejk-lower-to-gpu 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EARLY
// EARLY: error: {{.*}}a head awaits its turn before it adds to a sum
// RUN: ejk-opt %s --ejk-sum-in-turn --ejk-assign-tile-layouts --ejk-plan-memory --ejk-take-turns \
// RUN:   | grep -v tile.barrier | not ejk-opt --ejk-lower-to-gpu 2>&1 | FileCheck %s --check-prefix=UNORDERED
// UNORDERED: error: {{.*}}a turn is passed on behind a barrier
// The kernel that makes the terms of a sum over heads computes the sum, head after head.

// An iteration is a turn, and what follows the loop is another. The sum of bf16 is rounded apart.
// CHECK-LABEL: func.func @in_loop
// TURNS-LABEL: func.func @in_loop
func.func @in_loop(%q: tensor<1x40x4x16xbf16>, %k: tensor<1x40x2x16xbf16>)
    -> (tensor<1x40x2x16xbf16>, tensor<1x40x2xf32>)
    attributes {ejk.constraints = []} {
  // CHECK: %[[ZEROS:.*]] = linalg.fill ins(%{{.*}} : i32) outs(%{{.*}} : tensor<1x40x4xi32>)
  // CHECK: %[[TERMS:.*]]:2 = tile.program {{.*}} turns(%[[ZEROS]] : tensor<1x40x4xi32>)
  %x:2 = tile.program chunk 16 slices 1 sequences(%q : tensor<1x40x4x16xbf16>)
      outputs(tensor<1x40x4x16xf32>, tensor<1x40x4xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>, %yr: !tile.rows<f32>, %length: index,
       %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %chunks = arith.ceildivui %length, %c16 : index
    // The barrier behind the loads is there anyway; behind it the last turn is passed on.
    // TURNS: scf.for %[[I:.*]] = %[[FIRST:.*]] to
    // TURNS: %[[DONE:.*]] = arith.subi %[[I]], %[[FIRST]]
    // TURNS: %[[TURN:.*]] = arith.addi %{{.*}}, %[[DONE]]
    // TURNS: tile.barrier
    // TURNS-NEXT: tile.pass_turn %[[TURN]]
    // TURNS: tile.await_turn %[[TURN]]
    // TURNS-NEXT: tile.store
    // TURNS-NOT: tile.await_turn
    // TURNS: tile.store
    // TURNS: }
    // TURNS: %[[ALL:.*]] = arith.addi
    // TURNS-NEXT: tile.barrier
    // TURNS-NEXT: tile.pass_turn %[[ALL]]
    scf.for %i = %c0 to %chunks step %c1 {
      %first = arith.muli %i, %c16 : index
      %t = tile.load %qr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %w = arith.extf %t : vector<16x16xbf16> to vector<16x16xf32>
      %s = tile.sum %w over 1 : vector<16x16xf32> -> vector<16xf32>
      tile.store %w, %xr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
      tile.store %s, %yr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
    }
    tile.end
  }
  // CHECK: %[[SUM:.*]] = ejk.sum_heads %[[TERMS]]#0 along 2 like %{{.*}} -> tensor<1x40x2x16xf32>
  // CHECK-NEXT: arith.truncf %[[SUM]] : tensor<1x40x2x16xf32> to tensor<1x40x2x16xbf16>
  %dk = ejk.sum_heads %x#0 along 2 like %k : tensor<1x40x4x16xf32>, tensor<1x40x2x16xbf16> -> tensor<1x40x2x16xbf16>
  // CHECK: ejk.sum_heads %[[TERMS]]#1 along 2 like %{{.*}} -> tensor<1x40x2xf32>
  %like = tensor.empty() : tensor<1x40x2xf32>
  %dg = ejk.sum_heads %x#1 along 2 like %like : tensor<1x40x4xf32>, tensor<1x40x2xf32> -> tensor<1x40x2xf32>
  return %dk, %dg : tensor<1x40x2x16xbf16>, tensor<1x40x2xf32>
}

// What is stored outside of loops has turns of its own, and so has a loop behind it.
// TURNS-LABEL: func.func @outside
func.func @outside(%q: tensor<1x16x4x16xbf16>, %k: tensor<1x16x2x16xbf16>) -> tensor<1x16x2x16xf32>
    attributes {ejk.constraints = []} {
  %x = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x4x16xbf16>) outputs(tensor<1x16x4x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %w = arith.extf %t : vector<16x16xbf16> to vector<16x16xf32>
    // TURNS: tile.await_turn %[[NONE:.*]]
    // TURNS-NEXT: tile.store
    // TURNS: %[[ONE:.*]] = arith.addi %[[NONE]], %{{.*}}
    // TURNS-NEXT: tile.barrier
    // TURNS-NEXT: tile.pass_turn %[[ONE]]
    tile.store %w, %xr[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  %dk = ejk.sum_heads %x along 2 like %k : tensor<1x16x4x16xf32>, tensor<1x16x2x16xbf16> -> tensor<1x16x2x16xf32>
  return %dk : tensor<1x16x2x16xf32>
}

// Terms that another op uses, too, and those of slices keep a kernel that sums them.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: turns
// CHECK-LABEL: func.func @test
func.func @apart(%q: tensor<1x16x4x16xbf16>, %k: tensor<1x16x2x16xbf16>) -> (tensor<1x16x2x16xf32>, tensor<1x16x4x16xf32>)
    attributes {ejk.constraints = []} {
  %x = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x4x16xbf16>) outputs(tensor<1x16x4x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %w = arith.extf %t : vector<16x16xbf16> to vector<16x16xf32>
    tile.store %w, %xr[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  %dk = ejk.sum_heads %x along 2 like %k : tensor<1x16x4x16xf32>, tensor<1x16x2x16xbf16> -> tensor<1x16x2x16xf32>
  return %dk, %x : tensor<1x16x2x16xf32>, tensor<1x16x4x16xf32>
}

func.func @test() {
  %q = arith.constant dense<1.0> : tensor<1x40x4x16xbf16>
  %k = arith.constant dense<0.0> : tensor<1x40x2x16xbf16>
  %dk, %dg = call @in_loop(%q, %k)
      : (tensor<1x40x4x16xbf16>, tensor<1x40x2x16xbf16>) -> (tensor<1x40x2x16xbf16>, tensor<1x40x2xf32>)
  %two = arith.constant dense<2.0> : tensor<1x40x2x16xbf16>
  check.expect_equal %dk, %two : tensor<1x40x2x16xbf16>
  %of16 = arith.constant dense<32.0> : tensor<1x40x2xf32>
  check.expect_equal %dg, %of16 : tensor<1x40x2xf32>
  return
}
