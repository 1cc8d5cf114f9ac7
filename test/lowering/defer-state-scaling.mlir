// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-defer-state-scaling -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null

// Of a derivative's two walks each scales its state twice, for both to take the same chunks
// by products.
// RUN: ejk-opt %S/tile/Inputs/two-gates.mlir --ejk-backward=function=key --ejk-to-tile \
// RUN:   --ejk-defer-state-scaling | FileCheck %s --check-prefix=PAIR
// Where one walk makes all gradients, nobody else need take the same.
// RUN: ejk-opt %S/tile/Inputs/key-gate-128.mlir --ejk-backward --ejk-select-schedule='arch=sm_90a schedule=chunk' \
// RUN:   --canonicalize --cse --ejk-sink-into-branches --ejk-defer-state-scaling | FileCheck %s --check-prefix=ONE
// RUN: ejk-opt %S/tile/Inputs/key-gate-128.mlir --ejk-backward --ejk-select-schedule='arch=sm_90a schedule=chunk save-states' \
// RUN:   --canonicalize --cse --ejk-sink-into-branches --ejk-defer-state-scaling | FileCheck %s --check-prefix=ARGUMENT
// ONE-LABEL: func.func @key_gate_vjp(
// ONE: scf.for {{.*}} -> (vector<128x128xf32>) {
// ONE: scf.for {{.*}} -> (vector<128x128xf32>, vector<128xf32>) {
// ARGUMENT-LABEL: func.func @key_gate_vjp(
// ARGUMENT: scf.for {{.*}} -> (vector<128x128xf32>, vector<128xf32>) {
// PAIR-LABEL: func.func @key(
// PAIR: scf.for {{.*}} -> (vector<64x64xf32>, vector<64xf32>) {
// PAIR-LABEL: func.func @key_vjp(
// PAIR: scf.for {{.*}} -> (vector<64x64xf32>) {
// PAIR-NOT: scf.for {{.*}} -> (vector<64x64xf32>, vector<64xf32>, vector<64xf32>) {
// PAIR: return

// The state is scaled once, by both exponents; the other side, and what follows the loop,
// scale it first. The last chunk takes the other side.
// CHECK-LABEL: func.func @once
// CHECK: %[[NONE:.*]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK: %[[END:.*]]:2 = scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[W:.*]] = %[[NONE]])
// CHECK: %[[X:.*]] = vector.broadcast
// CHECK: %[[BOTH:.*]] = arith.addf %[[W]], %[[M:.*]] : vector<4xf32>
// CHECK: %[[SHARE:.*]] = arith.mulf %[[BOTH]]
// CHECK-NEXT: %[[FITS:.*]] = tile.range_guard 6.400000e+01 of %[[X]], %[[SHARE]]
// CHECK-NEXT: %[[NEXT:.*]]:2 = tile.guarded %[[FITS]] -> (vector<4x4xf32>, vector<4xf32>)
// CHECK-NEXT: %[[E:.*]] = math.exp %[[BOTH]]
// CHECK-NEXT: %[[F:.*]] = tile.broadcast %[[E]] along 0
// CHECK-NEXT: %[[B:.*]] = arith.mulf %[[S]], %[[F]]
// CHECK-NEXT: %[[T:.*]] = tile.dot %{{.*}} transposed, %{{.*}}, %[[B]]
// CHECK-NEXT: tile.yield %[[T]], %{{.*}} : vector<4x4xf32>, vector<4xf32>
// CHECK-NEXT: } exact {
// CHECK-NEXT: %[[E1:.*]] = math.exp %[[W]]
// CHECK-NEXT: %[[F1:.*]] = tile.broadcast %[[E1]] along 0
// CHECK-NEXT: %[[S1:.*]] = arith.mulf %[[S]], %[[F1]]
// CHECK-NEXT: arith.addf %[[S1]], %[[S1]]
// CHECK: tile.yield %{{.*}}, %[[NONE]]
// CHECK: scf.yield %[[NEXT]]#0, %[[NEXT]]#1
// CHECK: %[[E2:.*]] = math.exp %[[END]]#1
// CHECK-NEXT: %[[F2:.*]] = tile.broadcast %[[E2]] along 0
// CHECK-NEXT: %[[H:.*]] = arith.mulf %[[END]]#0, %[[F2]]
// CHECK: tile.store_slot %[[H]]
func.func @once() {
  %k = check.random normal seed 1 : tensor<1x48x1x4xf32>
  %m = check.random normal seed 2 : tensor<4xf32>
  %v = check.random normal seed 3 : tensor<4xf32>
  %ht = tile.program chunk 16 slices 1 sequences(%k : tensor<1x48x1x4xf32>)
      parameters(%m, %v : tensor<4xf32>, tensor<4xf32>) finals(tensor<1x1x4x4xf32>) {
  ^bb0(%kr: !tile.rows<vector<4xf32>>, %mr: !tile.slots<vector<4xf32>>, %vr: !tile.slots<vector<4xf32>>,
       %hr: !tile.slots<vector<4x4xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %start = arith.constant dense<1.0> : vector<4x4xf32>
    %cm = arith.constant 40.0 : f32
    %n = arith.ceildivui %length, %c16 : index
    %mt = tile.load_slot %mr[%c0] at (%c0) : !tile.slots<vector<4xf32>> -> vector<4xf32>
    %vt = tile.load_slot %vr[%c0] at (%c0) : !tile.slots<vector<4xf32>> -> vector<4xf32>
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> vector<4x4xf32> {
      %first = arith.muli %c, %c16 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<4xf32>> -> vector<16x4xf32>
      %ci = arith.index_cast %c : index to i32
      %cf = arith.sitofp %ci : i32 to f32
      %odd = arith.mulf %cf, %cm : f32
      %x = vector.broadcast %odd : f32 to vector<4xf32>
      %ordinary = tile.range_guard 64.0 of %x : vector<4xf32>
      %next = tile.guarded %ordinary -> (vector<4x4xf32>) fast {
        %em = math.exp %mt : vector<4xf32>
        %f = tile.broadcast %em along 0 : vector<4xf32> -> vector<4x4xf32>
        %b = arith.mulf %s, %f : vector<4x4xf32>
        %t = tile.dot %kt transposed, %kt, %b : vector<16x4xf32>, vector<16x4xf32>, vector<4x4xf32>
        %ev = math.exp %vt : vector<4xf32>
        %g = tile.broadcast %ev along 0 : vector<4xf32> -> vector<4x4xf32>
        %scaled = arith.mulf %t, %g : vector<4x4xf32>
        tile.yield %scaled : vector<4x4xf32>
      } exact {
        %twice = arith.addf %s, %s : vector<4x4xf32>
        tile.yield %twice : vector<4x4xf32>
      }
      scf.yield %next : vector<4x4xf32>
    }
    tile.store_slot %end, %hr[%c0] at (%c0, %c0) : vector<4x4xf32>, !tile.slots<vector<4x4xf32>>
    tile.end
  }
  // Its state is used in front of the branch, too: scaled where it was.
  // CHECK: tile.program
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<4x4xf32>)
  %hs = tile.program chunk 16 slices 1 sequences(%k : tensor<1x48x1x4xf32>)
      parameters(%m, %v : tensor<4xf32>, tensor<4xf32>) finals(tensor<1x1x4x4xf32>) {
  ^bb0(%kr: !tile.rows<vector<4xf32>>, %mr: !tile.slots<vector<4xf32>>, %vr: !tile.slots<vector<4xf32>>,
       %hr: !tile.slots<vector<4x4xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<4x4xf32>
    %start = arith.constant dense<1.0> : vector<4x4xf32>
    %cm = arith.constant 40.0 : f32
    %n = arith.ceildivui %length, %c16 : index
    %mt = tile.load_slot %mr[%c0] at (%c0) : !tile.slots<vector<4xf32>> -> vector<4xf32>
    %vt = tile.load_slot %vr[%c0] at (%c0) : !tile.slots<vector<4xf32>> -> vector<4xf32>
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> vector<4x4xf32> {
      %first = arith.muli %c, %c16 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<4xf32>> -> vector<16x4xf32>
      %ci = arith.index_cast %c : index to i32
      %cf = arith.sitofp %ci : i32 to f32
      %odd = arith.mulf %cf, %cm : f32
      %x = vector.broadcast %odd : f32 to vector<4xf32>
      %ordinary = tile.range_guard 64.0 of %x : vector<4xf32>
      %same = arith.addf %s, %zero : vector<4x4xf32>
      %next = tile.guarded %ordinary -> (vector<4x4xf32>) fast {
        %em = math.exp %mt : vector<4xf32>
        %f = tile.broadcast %em along 0 : vector<4xf32> -> vector<4x4xf32>
        %b = arith.mulf %s, %f : vector<4x4xf32>
        %t = tile.dot %kt transposed, %kt, %b : vector<16x4xf32>, vector<16x4xf32>, vector<4x4xf32>
        %ev = math.exp %vt : vector<4xf32>
        %g = tile.broadcast %ev along 0 : vector<4xf32> -> vector<4x4xf32>
        %scaled = arith.mulf %t, %g : vector<4x4xf32>
        tile.yield %scaled : vector<4x4xf32>
      } exact {
        %twice = arith.addf %same, %s : vector<4x4xf32>
        tile.yield %twice : vector<4x4xf32>
      }
      scf.yield %next : vector<4x4xf32>
    }
    tile.store_slot %end, %hr[%c0] at (%c0, %c0) : vector<4x4xf32>, !tile.slots<vector<4x4xf32>>
    tile.end
  }
  check.expect_close %ht, %hs max_relative 1.0e-12 : tensor<1x1x4x4xf32>
  return
}
