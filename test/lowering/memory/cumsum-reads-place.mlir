// A cumsum of a widened tile reads the tile in shared memory, behind two ops. Its place is kept until
// then, though all other uses of the tile come before.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a | FileCheck %s

// CHECK-LABEL: func.func @transposed
// CHECK: tile.load {{.*}}<swizzled at [[PLACE:[0-9]+]]>
// CHECK-NOT: tile.load {{.*}}<swizzled at [[PLACE]]>
// CHECK: tile.cumsum
func.func @transposed(%q: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xf32>) attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %rows = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<swizzled>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %t = tile.convert %rows to <transposed_fragments over 4 by 1> : vector<64x64xbf16>
    %wide = arith.extf %t {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>]} : vector<64x64xbf16> to vector<64x64xf32>
    %other = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<swizzled>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %u = tile.convert %other to <transposed_fragments over 4 by 1> : vector<64x64xbf16>
    %also = arith.extf %u {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>]} : vector<64x64xbf16> to vector<64x64xf32>
    %sums = tile.cumsum %wide {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>]} : vector<64x64xf32>
    %both = arith.addf %sums, %also {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>]} : vector<64x64xf32>
    tile.store %both, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
