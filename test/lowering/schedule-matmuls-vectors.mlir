// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a --ejk-schedule-matmuls | FileCheck %s

// In a loop, ops on vectors whose results only go to memory follow the last matmul, and overlap with it.
// CHECK-LABEL: func.func @in_loop(
// CHECK:         scf.for
// CHECK:         tile.dot
// CHECK:         tile.dot
// CHECK-NOT:     tile.dot
// CHECK:         math.exp
// CHECK:         tile.store {{.*}} vector<64xf32>
func.func @in_loop(%x: tensor<1x?x1x64xbf16>, %g: tensor<1x?x1xf32>) -> (tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  %y:2 = tile.program chunk 64 slices 1 sequences(%x, %g : tensor<1x?x1x64xbf16>, tensor<1x?x1xf32>)
      outputs(tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %gates: !tile.rows<f32>, %out: !tile.rows<vector<64xf32>>,
       %out2: !tile.rows<f32>, %n: index, %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %v = tile.load %gates[%r, %c0] : <f32> -> vector<64xf32>
      %e = math.exp %v : vector<64xf32>
      tile.store %e, %out2[%r, %c0] : vector<64xf32>, <f32>
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t transposed, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.store %d, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1 : tensor<1x?x1x64xf32>, tensor<1x?x1xf32>
}

// In a branch they overlap with the first matmul, which the second one waits for.
// CHECK-LABEL: func.func @in_branch(
// CHECK:         tile.guarded
// CHECK:         tile.dot
// CHECK:         math.exp
// CHECK:         tile.store {{.*}} vector<64xf32>
// CHECK:         tile.dot
// CHECK:       } exact {
func.func @in_branch(%x: tensor<1x?x1x64xbf16>, %g: tensor<1x?x1xf32>) -> (tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  %y:2 = tile.program chunk 64 slices 1 sequences(%x, %g : tensor<1x?x1x64xbf16>, tensor<1x?x1xf32>)
      outputs(tensor<1x?x1x64xf32>, tensor<1x?x1xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %gates: !tile.rows<f32>, %out: !tile.rows<vector<64xf32>>,
       %out2: !tile.rows<f32>, %n: index, %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %v = tile.load %gates[%r, %c0] : <f32> -> vector<64xf32>
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %small = tile.range_guard 1.0 of %v : vector<64xf32>
      %o = tile.guarded %small -> (vector<64x64xf32>) fast {
        %e = math.exp %v : vector<64xf32>
        tile.store %e, %out2[%r, %c0] : vector<64xf32>, <f32>
        %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        %d = tile.dot %t, %t transposed, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        tile.yield %d : vector<64x64xf32>
      } exact {
        tile.store %v, %out2[%r, %c0] : vector<64xf32>, <f32>
        tile.yield %z : vector<64x64xf32>
      }
      tile.store %o, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1 : tensor<1x?x1x64xf32>, tensor<1x?x1xf32>
}
