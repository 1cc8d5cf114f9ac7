// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-load-states-by-rows -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %t.mlir --ejk-multistage-loads -o %t.staged.mlir
// RUN: FileCheck %s --check-prefix=STAGED < %t.staged.mlir
// RUN: ejk-opt %t.staged.mlir --ejk-interpret -o /dev/null

// A walk forward that saves each chunk's rows as a matrix of 16 bits, and a
// walk back that adds what was saved: packed, with chunks that are not full and sequences
// that are empty.
// CHECK-LABEL: func.func @saved
func.func @saved() {
  %x = check.random normal seed 1 : tensor<1x70x2x16xbf16>
  %cu = arith.constant dense<[0, 33, 33, 70]> : tensor<4xi32>
  %h0 = check.random normal seed 2 : tensor<3x2x16x16xf32>
  %y, %saves = tile.program chunk 16 save_every 16 slices 1
      sequences(%x : tensor<1x70x2x16xbf16>) cu_seqlens(%cu : tensor<4xi32>)
      outputs(tensor<1x70x2x16xbf16>) saves(tensor<7x2x16x16xbf16>) {
  ^bb0(%xr: !tile.rows<vector<16xbf16>>, %yr: !tile.rows<vector<16xbf16>>,
       %slots: !tile.slots<vector<16x16xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      // CHECK: %[[ROWS:.*]] = tile.slot_rows %[[CELLS:.*]][%[[C:.*]]] : <vector<16x16xbf16>> -> <vector<16xbf16>>
      // CHECK-NEXT: tile.store %{{.*}}, %[[ROWS]][%{{.*}}, %{{.*}}] : vector<16x16xbf16>, <vector<16xbf16>>
      // CHECK-NOT: tile.store_slot
      tile.store_slot %xt, %slots[%c] at (%c0, %c0) : vector<16x16xbf16>, !tile.slots<vector<16x16xbf16>>
      tile.store %xt, %yr[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
    }
    tile.end
  }
  %z, %last = tile.program chunk 16 save_every 16 slices 1
      sequences(%y : tensor<1x70x2x16xbf16>) initial(%h0 : tensor<3x2x16x16xf32>)
      saved(%saves : tensor<7x2x16x16xbf16>) cu_seqlens(%cu : tensor<4xi32>)
      outputs(tensor<1x70x2x16xbf16>) finals(tensor<3x2x16x16xf32>) {
  ^bb0(%yr: !tile.rows<vector<16xbf16>>, %h: !tile.slots<vector<16x16xf32>>,
       %slots: !tile.slots<vector<16x16xbf16>>, %zr: !tile.rows<vector<16xbf16>>,
       %ht: !tile.slots<vector<16x16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    %last = arith.subi %n, %c1 : index
    // What is no 16-bit matrix stays a slot.
    // CHECK: tile.load_slot %{{.*}} : <vector<16x16xf32>> -> vector<16x16xf32>
    %S = tile.load_slot %h[%c0] at (%c0, %c0) : !tile.slots<vector<16x16xf32>> -> vector<16x16xf32>
    tile.store_slot %S, %ht[%c0] at (%c0, %c0) : vector<16x16xf32>, !tile.slots<vector<16x16xf32>>
    // The rows of slots have a ring of one stage, which is filled for the next chunk where
    // this one's are used last. Before the first slot there is none.
    // STAGED: tile.load_slot
    // STAGED: %[[RING:.*]] = tile.make_ring : <2 of vector<16x16xbf16>>
    // STAGED: %[[CELLRING:.*]] = tile.make_ring : <1 of vector<16x16xbf16>>
    // STAGED: tile.slot_rows
    // STAGED: tile.fill %[[CELLRING]]
    // STAGED: scf.for
    scf.for %i = %c0 to %n step %c1 {
      %c = arith.subi %last, %i : index
      %first = arith.muli %c, %c16 : index
      // CHECK: %[[ROWS:.*]] = tile.slot_rows
      // CHECK-NEXT: tile.load %[[ROWS]]
      // STAGED: %[[TILE:.*]] = tile.take %[[RING]]
      // STAGED: %[[SAVED:.*]] = tile.take %[[CELLRING]][%[[I:.*]]]
      // STAGED: arith.subf %[[TILE]], %[[SAVED]]
      // STAGED: tile.release %[[CELLRING]][%[[I]]]
      // STAGED: %[[NEXT:.*]] = tile.slot_rows
      // STAGED: tile.acquire %[[CELLRING]]
      // STAGED: tile.fill %[[CELLRING]]{{.*}} from(%[[NEXT]])
      %saved = tile.load_slot %slots[%c] at (%c0, %c0) : !tile.slots<vector<16x16xbf16>> -> vector<16x16xbf16>
      %yt = tile.load %yr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %difference = arith.subf %yt, %saved : vector<16x16xbf16>
      tile.store %difference, %zr[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
    }
    tile.end
  }
  %zero = arith.subf %x, %x : tensor<1x70x2x16xbf16>
  check.expect_equal %y, %x : tensor<1x70x2x16xbf16>
  check.expect_equal %last, %h0 : tensor<3x2x16x16xf32>
  check.expect_equal %z, %zero : tensor<1x70x2x16xbf16>
  return
}
