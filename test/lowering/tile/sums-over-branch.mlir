// A sum behind a branch of what was read in front of it: the tile is read there, and not part by part
// behind the branch, which has the ring filled again.
// RUN: ejk-opt %s --ejk-multistage-loads=stages=1 -o %t.mlir
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=300,H=1
// RUN: %{run} %s
// RUN: %{run} %t.mlir
module {
  func.func @f(%q: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) {
    %o, %s = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>) attributes {tile.warpgroups, tile.warps = 4 : i64} {
    ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %sr: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %cst = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<2.0> : vector<64x64xf32>
      %z = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
      %n = arith.ceildivui %length, %c64 : index
      scf.for %i = %c0 to %n step %c1 {
        %first = arith.muli %i, %c64 : index
        %t = tile.load %qr[%first, %c0] {tile.layouts = [#tile.layout<swizzled>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
        %early = tile.convert %t to <fragments over 4 by 1> : vector<64x64xbf16>
        %is = arith.cmpi eq, %i, %c1 : index
        %r = scf.if %is -> (vector<64x64xf32>) {
          %w = tile.dot %t, %t transposed, %z {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
          scf.yield %w : vector<64x64xf32>
        } else {
          %w = tile.dot %t transposed, %t, %z {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
          %w2 = arith.mulf %w, %cst {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
          scf.yield %w2 : vector<64x64xf32>
        } {tile.layouts = [#tile.layout<fragments over 4 by 1>]}
        %e = arith.extf %early {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16> to vector<64x64xf32>
        %m = arith.mulf %e, %r {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
        %sum = tile.sum %m over 0 {tile.layouts = [#tile.layout<lanes>]} : vector<64x64xf32> -> vector<64xf32>
        %sp = tile.broadcast %sum along 1 {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64xf32> -> vector<64x64xf32>
        tile.store %sp, %or[%first, %c0] : vector<64x64xf32>, <vector<64xf32>>
        tile.store %r, %sr[%first, %c0] : vector<64x64xf32>, <vector<64xf32>>
      }
      tile.end
    }
    return %o, %s : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
  }
}
