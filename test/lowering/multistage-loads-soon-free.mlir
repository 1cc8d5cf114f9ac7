// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=1 -o %t.1.mlir
// RUN: FileCheck %s < %t.1.mlir
// RUN: ejk-opt %t.1.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-multistage-loads=stages=2 | FileCheck %s --check-prefix=TWO
// TWO-COUNT-1: tile.make_ring
// TWO-NOT: tile.make_ring

// Rows that are used no more once half of the matmuls are issued are copied again before the other half. The
// iteration waits for the rows of the other ring where it first uses one.
// CHECK-LABEL: func.func @chunks
func.func @chunks() {
  %q = check.random normal seed 1 : tensor<2x70x2x16xf32>
  %v = check.random normal seed 2 : tensor<2x70x2x16xf32>
  %g = check.random normal seed 3 : tensor<2x70x2xf32>
  %o:3 = tile.program chunk 16 slices 1
      sequences(%q, %v, %g : tensor<2x70x2x16xf32>, tensor<2x70x2x16xf32>, tensor<2x70x2xf32>)
      outputs(tensor<2x70x2x16xf32>, tensor<2x70x2x16xf32>, tensor<2x70x2x16xf32>) {
  // CHECK: {{\^}}bb0(%[[Q:[a-z0-9]+]]: !tile.rows<vector<16xf32>>, %[[V:[a-z0-9]+]]: !tile.rows<vector<16xf32>>, %[[G:[a-z0-9]+]]: !tile.rows<f32>,
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %vr: !tile.rows<vector<16xf32>>, %gr: !tile.rows<f32>,
       %or: !tile.rows<vector<16xf32>>, %vo: !tile.rows<vector<16xf32>>, %qo: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %n = arith.ceildivui %length, %c16 : index
    // CHECK: %[[SOON:.*]] = tile.make_ring : <1 of vector<16x16xf32>, vector<16xf32>>
    // CHECK: tile.fill %[[SOON]][%{{.*}}] from(%[[V]], %[[G]])
    // CHECK: %[[LATER:.*]] = tile.make_ring : <1 of vector<16x16xf32>>
    // CHECK: tile.fill %[[LATER]][%{{.*}}] from(%[[Q]])
    // CHECK: scf.for %[[C:.*]] =
    scf.for %c = %c0 to %n step %c1 {
      // CHECK: %[[TILES:.*]]:2 = tile.take %[[SOON]][%[[C]]]
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %vt = tile.load %vr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
      // CHECK: tile.broadcast %[[TILES]]#1
      // CHECK: %[[QT:.*]] = tile.take %[[LATER]][%[[C]]]
      // CHECK-NEXT: tile.dot %[[QT]]
      // CHECK-NEXT: tile.release %[[SOON]][%[[C]]]
      // CHECK: tile.fill %[[SOON]][%{{.*}}] from(%[[V]], %[[G]])
      // CHECK-NEXT: tile.dot
      // CHECK-NEXT: tile.dot
      // CHECK-NEXT: tile.store %[[QT]]
      // CHECK-NEXT: tile.release %[[LATER]][%[[C]]]
      // CHECK: tile.fill %[[LATER]][%{{.*}}] from(%[[Q]])
      tile.store %vt, %vo[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
      %rate = tile.broadcast %gt along 0 : vector<16xf32> -> vector<16x16xf32>
      %w = arith.mulf %vt, %rate : vector<16x16xf32>
      %a = tile.dot %qt, %vt transposed, %w : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %b = tile.dot %qt, %a, %zero : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %e = tile.dot %b, %qt, %b : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      tile.store %qt, %qo[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
      tile.store %e, %or[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    }
    tile.end
  }
  check.expect_equal %o#1, %v : tensor<2x70x2x16xf32>
  check.expect_equal %o#2, %q : tensor<2x70x2x16xf32>
  return
}
