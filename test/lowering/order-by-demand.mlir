// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_80 --ejk-schedule-matmuls | FileCheck %s

// Five accumulators and a scaled tile take more registers than a thread of four warps has. Each
// accumulator's other users, its store included, come before the next matmul, and the scaled tile
// is loaded again from where it lies for a matmul.
// CHECK-LABEL: func.func @demand
// CHECK:       %[[STORED:.*]] = tile.convert %{{.*}} to <shared> : vector<64x64xbf16>
// CHECK:       %[[A:.*]] = tile.dot %[[STORED]],
// CHECK-NOT:   tile.dot
// CHECK:       %[[AH:.*]] = arith.mulf %[[A]],
// CHECK-NOT:   tile.dot
// CHECK:       %[[A2:.*]] = arith.addf %[[A]], %[[AH]]
// CHECK-NOT:   tile.dot
// CHECK:       tile.store %[[A2]],
// CHECK:       %[[B:.*]] = tile.dot
// CHECK-NOT:   tile.dot
// CHECK:       %[[BH:.*]] = arith.mulf %[[B]],
// CHECK-NOT:   tile.dot
// CHECK:       %[[B2:.*]] = arith.addf %[[B]], %[[BH]]
// CHECK-NOT:   tile.dot
// CHECK:       tile.store %[[B2]],
// CHECK:       tile.convert %[[STORED]] to <fragments
func.func @demand(%x: tensor<1x?x1x64xbf16>)
    -> (tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  %y:3 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>)
      outputs(tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>,
       %out2: !tile.rows<vector<64xf32>>, %out3: !tile.rows<vector<64xf32>>, %n: index, %b: index,
       %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    %half = arith.constant dense<0.5> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %wide = arith.extf %t : vector<64x64xbf16> to vector<64x64xf32>
      %scaled = arith.mulf %wide, %half : vector<64x64xf32>
      %operand = arith.truncf %scaled : vector<64x64xf32> to vector<64x64xbf16>
      %a = tile.dot %operand, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %b1 = tile.dot %t, %t transposed, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %c = tile.dot %t transposed, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t, %half : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %e = tile.dot %t transposed, %t, %half : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %ah = arith.mulf %a, %half : vector<64x64xf32>
      %bh = arith.mulf %b1, %half : vector<64x64xf32>
      %a2 = arith.addf %a, %ah : vector<64x64xf32>
      %b2 = arith.addf %b1, %bh : vector<64x64xf32>
      %again = arith.extf %operand : vector<64x64xbf16> to vector<64x64xf32>
      %cd = arith.mulf %c, %d : vector<64x64xf32>
      %ce = arith.mulf %cd, %e : vector<64x64xf32>
      %rest = arith.addf %ce, %again : vector<64x64xf32>
      tile.store %a2, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %b2, %out2[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %rest, %out3[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1, %y#2 : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>
}
