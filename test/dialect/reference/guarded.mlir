// The interpreter takes one path of a `tile.guarded`. With a path tolerance it takes both, where the
// guard holds, and compares them.
// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-interpret=path-tolerance=1e-12 -o /dev/null
// A fast path that is off by a thousandth: an error, unless so much is allowed, or where the guard fails.
// RUN: sed 's/0.0 : f32 \/\/ off/1.0e-3 : f32/' %s >%t.off.mlir
// RUN: not ejk-opt %t.off.mlir --ejk-interpret=path-tolerance=9e-4 -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/check.expect_close.*//; s/^  return/  check.expect_equal %%x, %%x : tensor<1x48x1x16xf32>\n&/' %t.off.mlir >%t.unchecked.mlir
// RUN: ejk-opt %t.unchecked.mlir --ejk-interpret=path-tolerance=2e-3 -o /dev/null
// RUN: sed 's/range_guard 8.0/range_guard 0.0/' %t.off.mlir | ejk-opt --ejk-interpret=path-tolerance=0 -o /dev/null
// CHECK: error: result 0 of the fast path differs from the exact path's by 1.000E-03 of its norm, more than 9.000E-04

// What ejk-chunk makes of gates per channel: both paths of each chunk, forward and backward.
// RUN: ejk-opt %S/../../passes/chunk-two-gates.mlir --ejk-specialize --ejk-chunk \
// RUN:   --ejk-interpret=path-tolerance=1e-9 -o /dev/null
// RUN: ejk-opt %S/../../passes/chunk-saves.mlir --ejk-backward=checkpoint-every=64 --ejk-hoist-reductions --ejk-chunk \
// RUN:   --ejk-interpret=path-tolerance=1e-9 -o /dev/null 2>/dev/null

func.func @chunks() {
  %x = check.random normal seed 1 : tensor<1x48x1x16xf32>
  %y = tile.program chunk 16 slices 1 sequences(%x : tensor<1x48x1x16xf32>) outputs(tensor<1x48x1x16xf32>) {
  ^bb0(%xr: !tile.rows<vector<16xf32>>, %yr: !tile.rows<vector<16xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %off = arith.constant 0.0 : f32 // off
    %offs = vector.broadcast %off : f32 to vector<16x16xf32>
    scf.for %first = %c0 to %length step %c16 {
      %t = tile.load %xr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %ok = tile.range_guard 8.0 of %t : vector<16x16xf32>
      %sum = tile.guarded %ok -> (vector<16x16xf32>) fast {
        %twice = arith.addf %t, %t : vector<16x16xf32>
        %error = arith.mulf %twice, %offs : vector<16x16xf32>
        %near = arith.addf %twice, %error : vector<16x16xf32>
        tile.store %near, %yr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
        tile.yield %near : vector<16x16xf32>
      } exact {
        %two = arith.constant dense<2.0> : vector<16x16xf32>
        %twice = arith.mulf %t, %two : vector<16x16xf32>
        // Where both run, the fast path's store counts.
        tile.store %twice, %yr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
        tile.yield %twice : vector<16x16xf32>
      }
    }
    tile.end
  }
  %twice = arith.addf %x, %x : tensor<1x48x1x16xf32>
  check.expect_close %y, %twice max_relative 0.0 : tensor<1x48x1x16xf32>
  return
}
