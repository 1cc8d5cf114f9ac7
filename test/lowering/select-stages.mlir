// Three stages where they fit, two or one where they do not.
// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-select-stages=arch=sm_90 | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-select-stages=arch=sm_80 | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-select-stages=arch=sm_86 | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: ejk-opt %s --ejk-select-stages | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: func.func @large
// THREE: tile.make_ring : <3 of vector<64x512xbf16>>
// TWO: tile.make_ring : <2 of vector<64x512xbf16>>
// ONE: tile.make_ring : <1 of vector<64x512xbf16>>
// NONE-NOT: tile.make_ring
func.func @large(%k: tensor<?x?x?x512xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x512xbf16>)
      outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%kr: !tile.rows<vector<512xbf16>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %p = tile.dot %kt, %kt transposed, %zero : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      tile.store %p, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// Nothing depends on a counter here.
// CHECK-LABEL: func.func @no_loop
// CHECK-NOT: tile.make_ring
func.func @no_loop(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %gt = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<64xf32>
    tile.store %gt, %or[%c0, %c0] : vector<64xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
