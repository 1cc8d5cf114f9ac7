// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_80 --ejk-schedule-matmuls | FileCheck %s

// Where each warp waits for its own matmuls, what ends a tile's live range comes before the next
// matmul: a store, a sum, what is rounded.
// CHECK-LABEL: func.func @ends
// CHECK:         %[[A:.*]] = tile.dot
// CHECK-NEXT:    tile.store %[[A]],
// CHECK:         %[[B:.*]] = tile.dot
// CHECK-NEXT:    %[[SCALED:.*]] = arith.mulf %[[B]],
// CHECK-NEXT:    tile.sum %[[SCALED]]
// CHECK:         %[[C:.*]] = tile.dot
// CHECK-NEXT:    arith.truncf %[[C]]
// CHECK:         tile.dot
func.func @ends(%x: tensor<1x?x1x64xbf16>)
    -> (tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  %y:3 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>)
      outputs(tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>,
       %out2: !tile.rows<vector<64xf32>>, %sums: !tile.rows<f32>, %n: index, %b: index, %h: index,
       %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    %half = arith.constant dense<0.5> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %b1 = tile.dot %t, %t transposed, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %c = tile.dot %t transposed, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t, %half : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %scaled = arith.mulf %b1, %half : vector<64x64xf32>
      %sum = tile.sum %scaled over 1 : vector<64x64xf32> -> vector<64xf32>
      %cb = arith.truncf %c : vector<64x64xf32> to vector<64x64xbf16>
      %e = tile.dot %cb, %t, %d : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.store %sum, %sums[%r, %c0] : vector<64xf32>, <f32>
      tile.store %e, %out2[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %a, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1, %y#2 : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1xf32>
}
