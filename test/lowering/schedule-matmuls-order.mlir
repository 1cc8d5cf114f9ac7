// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a --ejk-schedule-matmuls | FileCheck %s

// What else uses accumulators stays behind a product where a branch stands between them,
// CHECK-LABEL: func.func @before_branch(
// CHECK:         %[[A:.*]] = tile.dot
// CHECK:         tile.dot {{.*}}, %[[A]] {
// CHECK:         tile.guarded
// CHECK:         arith.mulf %[[A]],
func.func @before_branch(%x: tensor<1x?x1x64xbf16>) -> (tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  %y:2 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>) outputs(tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>, %out2: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %w = arith.extf %t : vector<64x64xbf16> to vector<64x64xf32>
      %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t transposed, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %small = tile.range_guard 1.0 of %w : vector<64x64xf32>
      %e = tile.guarded %small -> (vector<64x64xf32>) fast {
        %e1 = math.exp %w : vector<64x64xf32>
        tile.yield %e1 : vector<64x64xf32>
      } exact {
        tile.yield %w : vector<64x64xf32>
      }
      %u = arith.mulf %a, %w : vector<64x64xf32>
      %u2 = arith.addf %u, %e : vector<64x64xf32>
      tile.store %u2, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %d, %out2[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1 : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>
}
// where it is made of another product of them,
// CHECK-LABEL: func.func @of_both(
// CHECK:         %[[A:.*]] = tile.dot
// CHECK-DAG:     %[[B:.*]] = tile.dot {{.*}} transposed, %{{.*}}, %[[A]] {
// CHECK-DAG:     tile.dot %{{.*}}, %{{.*}} transposed, %[[A]] {
// CHECK:         tile.store
func.func @of_both(%x: tensor<1x?x1x64xbf16>) -> (tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  %y:2 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>) outputs(tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>, %out2: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %w = arith.extf %t : vector<64x64xbf16> to vector<64x64xf32>
      %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t transposed, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d2 = tile.dot %t transposed, %t, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %u = arith.mulf %a, %d2 : vector<64x64xf32>
      %u2 = arith.addf %u, %w : vector<64x64xf32>
      tile.store %u2, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %d, %out2[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1 : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>
}
// or is stored to one place after it: nothing comes before itself.
// CHECK-LABEL: func.func @one_place(
// CHECK:         %[[A:.*]] = tile.dot
// CHECK:         %[[D:.*]] = tile.dot {{.*}}, %[[A]] {
// CHECK:         tile.store %{{.*}}, %[[OUT:arg[0-9]+]][
// CHECK:         tile.store %{{.*}}, %[[OUT]][
func.func @one_place(%x: tensor<1x?x1x64xbf16>) -> (tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  %y:2 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>) outputs(tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>, %out2: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %r = arith.muli %i, %n : index
      %t = tile.load %rows[%r, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %w = arith.extf %t : vector<64x64xbf16> to vector<64x64xf32>
      %a = tile.dot %t, %t, %z : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t, %t transposed, %a : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %u = arith.mulf %a, %w : vector<64x64xf32>
      %u2 = arith.addf %u, %w : vector<64x64xf32>
      tile.store %d, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
      tile.store %a, %out[%r, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y#0, %y#1 : tensor<1x?x1x64xf32>, tensor<1x?x1x64xf32>
}
