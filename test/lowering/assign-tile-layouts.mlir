// RUN: ejk-opt %s --ejk-assign-tile-layouts | FileCheck %s

// Each tile gets the layout that it is computed in, and each op what it needs.
// CHECK-LABEL: func.func @layouts
func.func @layouts(%q: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>) {
  // CHECK: tile.program {{.*}} attributes {tile.warps = 4 : i64} {
  %o, %h = tile.program chunk 64 slices 1
      sequences(%q, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)
      outputs(tensor<?x?x?x64xf32>) finals(tensor<?x?x64x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<64xf32>>,
       %hr: !tile.slots<vector<64x64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    // One number is one number in any layout, until it is to vary.
    // CHECK: %[[ZERO:.*]] = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    // CHECK: %[[INIT:.*]] = tile.convert %[[ZERO]] to <fragments over 2 by 2> : vector<64x64xf32>
    // CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %[[INIT]]) -> (vector<64x64xf32>)
    %s = scf.for %i = %c0 to %length step %c64 iter_args(%s = %zero) -> vector<64x64xf32> {
      // Rows lie in shared memory, where products want them.
      // CHECK: %[[Q:.*]] = tile.load {{.*}} {tile.layouts = [#tile.layout<shared>]} : <vector<64xbf16>>
      %qt = tile.load %qr[%i, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %gt = tile.load %gr[%i, %c0] : !tile.rows<f32> -> vector<64xf32>
      // CHECK: %[[P:.*]] = tile.dot %[[Q]], %[[Q]] transposed, %[[ZERO]] {tile.layouts = [#tile.layout<fragments over 2 by 2>]}
      %p = tile.dot %qt, %qt transposed, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      // Vectors lie over the lanes of every warp.
      // CHECK: %[[G:.*]] = tile.convert %{{.*}} to <lanes> : vector<64xf32>
      // CHECK: tile.broadcast %[[G]] along 0 {tile.layouts = [#tile.layout<fragments over 2 by 2>]}
      %gs = tile.broadcast %gt along 0 : vector<64xf32> -> vector<64x64xf32>
      %pg = arith.addf %p, %gs : vector<64x64xf32>
      tile.store %pg, %or[%i, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      // One conversion serves all who need it.
      // CHECK: %[[F:.*]] = tile.convert %[[Q]] to <fragments over 2 by 2> : vector<64x64xbf16>
      // CHECK-NEXT: %[[W:.*]] = arith.extf %[[F]]
      // CHECK-NEXT: arith.negf %[[F]]
      %w = arith.extf %qt : vector<64x64xbf16> to vector<64x64xf32>
      %n = arith.negf %qt : vector<64x64xbf16>
      // CHECK: %[[N:.*]] = tile.convert %{{.*}} to <shared> : vector<64x64xbf16>
      // CHECK: tile.dot %[[N]] transposed, %[[Q]], %[[S]]
      %s1 = tile.dot %n transposed, %qt, %s : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %s2 = arith.addf %s1, %w : vector<64x64xf32>
      scf.yield %s2 : vector<64x64xf32>
    }
    tile.store_slot %s, %hr[%c0] at (%c0, %c0) : vector<64x64xf32>, !tile.slots<vector<64x64xf32>>
    tile.end
  }
  return %o, %h : tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}
