// Rows of which nothing but running sums is taken: a ring's stage is read by the product that makes
// these, and not filled again before.
// RUN: ejk-opt %s --ejk-assign-tile-layouts=arch=sm_90a --ejk-multistage-loads=stages=1 -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=300,H=1
// RUN: %{run} %s
// RUN: %{run} %t.mlir

// CHECK: %[[ROWS:.*]] = tile.take
// CHECK: tile.convert %[[ROWS]] to <fragments
// CHECK: tile.cumsum
// CHECK: tile.release
func.func @f(%g: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1
      sequences(%g : tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%gr: !tile.rows<vector<64xbf16>>, 
       %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %gt = tile.load %gr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %gf = arith.extf %gt : vector<64x64xbf16> to vector<64x64xf32>
      %G = tile.cumsum %gf : vector<64x64xf32>
      tile.store %G, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
