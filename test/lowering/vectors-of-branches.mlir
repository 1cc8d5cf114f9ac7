// A vector that only a branch spreads is made before it, behind its question, and waits in
// shared memory; one that is used in other ways there is read back over lanes.
// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-hoist-from-branches -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null
// RUN: ejk-opt %t.mlir --ejk-assign-tile-layouts=arch=sm_90a -o %t.laid.mlir
// RUN: FileCheck %s --check-prefix=LAID < %t.laid.mlir
// RUN: ejk-opt %t.laid.mlir --ejk-interpret -o /dev/null
// Groups of four warps alone have them there.
// RUN: ejk-opt %t.mlir --ejk-assign-tile-layouts=arch=sm_90 | FileCheck %s --check-prefix=LANES

// CHECK-LABEL: func.func @spread
// CHECK: tile.range_guard
// CHECK-NEXT: %[[TWICE:.*]] = arith.addf %[[G:.*]], %[[G]] : vector<64xf32>
// CHECK-NEXT: %[[E:.*]] = math.exp %[[TWICE]]
// CHECK-NEXT: tile.guarded
// CHECK-NEXT: tile.broadcast %[[E]] along 1
// CHECK: tile.sum
// CHECK-NEXT: math.exp
// CHECK: } exact {

// LAID-LABEL: func.func @spread
// LAID: %[[G:.*]] = vector.extract %{{.*}}[3] {tile.layouts = [#tile.layout<lanes>]}
// LAID-NEXT: %[[GS:.*]] = tile.convert %[[G]] to <shared>
// LAID: %[[E:.*]] = math.exp
// LAID-NEXT: %[[ES:.*]] = tile.convert %[[E]] to <shared>
// LAID: tile.guarded
// LAID: tile.broadcast %[[ES]] along 1
// LAID: %[[BACK:.*]] = tile.convert %[[GS]] to <lanes>
// LAID: arith.mulf %{{.*}}, %[[BACK]]

// LANES: %[[E:.*]] = math.exp
// LANES-NEXT: tile.guarded
// LANES: tile.broadcast %[[E]] along 1
func.func @spread() {
  %x = check.random normal seed 1 : tensor<2x130x1x64xf32>
  %y, %z = tile.program chunk 64 slices 1 sequences(%x : tensor<2x130x1x64xf32>)
      outputs(tensor<2x130x1x64xf32>, tensor<2x130x1x64xf32>) {
  ^bb0(%xr: !tile.rows<vector<64xf32>>, %yr: !tile.rows<vector<64xf32>>, %zr: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      %g = vector.extract %xt[3] : vector<64xf32> from vector<64x64xf32>
      %weak = tile.range_guard 64.0 of %xt : vector<64x64xf32>
      %next:2 = tile.guarded %weak -> (vector<64x64xf32>, vector<64x64xf32>) fast {
        %twice = arith.addf %g, %g : vector<64xf32>
        %e = math.exp %twice : vector<64xf32>
        %es = tile.broadcast %e along 1 : vector<64xf32> -> vector<64x64xf32>
        %a = arith.mulf %xt, %es : vector<64x64xf32>
        // Of sums in the branch nothing is made before it.
        %sums = tile.sum %a over 0 : vector<64x64xf32> -> vector<64xf32>
        %ne = math.exp %sums : vector<64xf32>
        %ng = arith.mulf %ne, %g : vector<64xf32>
        %s = tile.broadcast %ng along 1 : vector<64xf32> -> vector<64x64xf32>
        tile.yield %a, %s : vector<64x64xf32>, vector<64x64xf32>
      } exact {
        tile.yield %xt, %xt : vector<64x64xf32>, vector<64x64xf32>
      }
      tile.store %next#0, %yr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      tile.store %next#1, %zr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  // The same without a branch.
  %y1, %z1 = tile.program chunk 64 slices 1 sequences(%x : tensor<2x130x1x64xf32>)
      outputs(tensor<2x130x1x64xf32>, tensor<2x130x1x64xf32>) {
  ^bb0(%xr: !tile.rows<vector<64xf32>>, %yr: !tile.rows<vector<64xf32>>, %zr: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
      %g = vector.extract %xt[3] : vector<64xf32> from vector<64x64xf32>
      %e = math.exp %g : vector<64xf32>
      %e2 = arith.mulf %e, %e : vector<64xf32>
      %es = tile.broadcast %e2 along 1 : vector<64xf32> -> vector<64x64xf32>
      %a = arith.mulf %xt, %es : vector<64x64xf32>
      %sums = tile.sum %a over 0 : vector<64x64xf32> -> vector<64xf32>
      %ne = math.exp %sums : vector<64xf32>
      %ng = arith.mulf %ne, %g : vector<64xf32>
      %s = tile.broadcast %ng along 1 : vector<64xf32> -> vector<64x64xf32>
      tile.store %a, %yr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      tile.store %s, %zr[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  check.expect_close %y, %y1 max_relative 1.0e-12 : tensor<2x130x1x64xf32>
  check.expect_close %z, %z1 max_relative 1.0e-12 : tensor<2x130x1x64xf32>
  return
}
