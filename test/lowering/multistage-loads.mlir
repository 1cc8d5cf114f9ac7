// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads -o %t.2.mlir
// RUN: FileCheck %s --check-prefixes=CHECK,TWO < %t.2.mlir
// RUN: ejk-opt %t.2.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=3 -o %t.3.mlir
// RUN: FileCheck %s --check-prefixes=CHECK,THREE < %t.3.mlir
// RUN: ejk-opt %t.3.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=1 -o %t.1.mlir
// RUN: FileCheck %s --check-prefixes=CHECK,ONE < %t.1.mlir
// RUN: ejk-opt %t.1.mlir --ejk-interpret -o /dev/null
// RUN: not ejk-opt %s --ejk-multistage-loads=stages=0 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: 'stages' must be positive, but is 0

// All loads of an iteration are one item; the release follows its last use.
// CHECK-LABEL: func.func @chunks
func.func @chunks() {
  %q = check.random normal seed 1 : tensor<2x70x2x4xf32>
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %o:2 = tile.program chunk 16 slices 1
      sequences(%q, %g : tensor<2x70x2x4xf32>, tensor<2x70x2xf32>)
      outputs(tensor<2x70x2x4xf32>, tensor<2x70x2xf32>) {
  // CHECK: {{\^}}bb0(%[[Q:[a-z0-9]+]]: !tile.rows<vector<4xf32>>, %[[G:[a-z0-9]+]]: !tile.rows<f32>,
  ^bb0(%qr: !tile.rows<vector<4xf32>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<4xf32>>,
       %pr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    // ONE: %[[RING:.*]] = tile.make_ring : <1 of vector<16x4xf32>, vector<16xf32>>
    // ONE: tile.acquire %[[RING]][%[[ITEM:[a-z0-9_]+]]]
    // ONE: tile.fill %[[RING]][%[[ITEM]]] from(%[[Q]], %[[G]])
    // TWO: %[[RING:.*]] = tile.make_ring : <2 of vector<16x4xf32>, vector<16xf32>>
    // TWO: tile.acquire %[[RING]][%[[ITEM:[a-z0-9_]+]]]
    // TWO: tile.fill %[[RING]][%[[ITEM]]] from(%[[Q]], %[[G]])
    // THREE: %[[RING:.*]] = tile.make_ring : <3 of vector<16x4xf32>, vector<16xf32>>
    // THREE-COUNT-2: tile.fill %[[RING]]
    // CHECK: scf.for %[[C:.*]] =
    scf.for %c = %c0 to %n step %c1 {
      // CHECK: %[[TILES:.*]]:2 = tile.take %[[RING]][%[[C]]]
      // TWO: %[[AHEAD:.*]] = arith.constant 1 : index
      // TWO: %[[NEXT:.*]] = arith.addi %[[C]], %[[AHEAD]]
      // THREE: %[[AHEAD:.*]] = arith.constant 2 : index
      // THREE: %[[NEXT:.*]] = arith.addi %[[C]], %[[AHEAD]]
      // TWO: tile.acquire %[[RING]][%[[NEXT]]]
      // TWO: tile.fill %[[RING]][%[[NEXT]]] from(%[[Q]], %[[G]])
      // THREE: tile.acquire %[[RING]][%[[NEXT]]]
      // THREE: tile.fill %[[RING]][%[[NEXT]]] from(%[[Q]], %[[G]])
      %first = arith.muli %c, %c16 : index
      // CHECK-NOT: tile.load
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<4xf32>> -> vector<16x4xf32>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
      // CHECK: tile.store %[[TILES]]#1
      tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
      // CHECK: arith.subf %{{.*}}, %[[TILES]]#0
      // CHECK-NEXT: tile.release %[[RING]][%[[C]]]
      // ONE: %[[NEXT:.*]] = arith.addi %[[C]],
      // ONE: tile.acquire %[[RING]][%[[NEXT]]]
      // ONE: tile.fill %[[RING]][%[[NEXT]]] from(%[[Q]], %[[G]])
      %two = arith.addf %qt, %qt : vector<16x4xf32>
      %half = arith.subf %two, %qt : vector<16x4xf32>
      // CHECK: tile.store
      tile.store %half, %or[%first, %c0] : vector<16x4xf32>, !tile.rows<vector<4xf32>>
    }
    tile.end
  }
  check.expect_close %o#0, %q max_relative 1.0e-15 : tensor<2x70x2x4xf32>
  check.expect_equal %o#1, %g : tensor<2x70x2xf32>
  return
}

// A loop that counts otherwise: its items are numbered from 0 on.
// CHECK-LABEL: func.func @counter
func.func @counter() {
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %o = tile.program chunk 16 slices 1 sequences(%g : tensor<2x70x2xf32>) outputs(tensor<2x70x2xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %pr: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %start = arith.constant -32 : index
    // CHECK: scf.for %[[C:.*]] = %[[START:[a-z0-9_-]+]] to %{{.*}} step %[[STEP:.*]] {
    scf.for %first = %start to %length step %c16 {
      // CHECK: %[[ROWS:.*]] = arith.subi %[[C]], %[[START]]
      // CHECK: %[[ITEM:.*]] = arith.divui %[[ROWS]], %[[STEP]]
      // CHECK: tile.take %{{.*}}[%[[ITEM]]]
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
      tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
    }
    tile.end
  }
  check.expect_equal %o, %g : tensor<2x70x2xf32>
  return
}
