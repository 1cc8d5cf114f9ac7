// The widest matmul of a warpgroup: 256 columns are one instruction.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=70,H=1
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
#fragments = #tile.layout<fragments over 4 by 1>
#panels = #tile.layout<swizzled>
func.func @f(%x: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x256xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%x, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x256xbf16>) outputs(tensor<?x?x?x256xf32>)
      attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%xr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<256xbf16>>, %or: !tile.rows<vector<256xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x256xf32>
    %n = arith.ceildivui %length, %c64 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %a = tile.load %xr[%first, %c0] {tile.layouts = [#panels]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %b = tile.load %kr[%first, %c0] {tile.layouts = [#panels]} : !tile.rows<vector<256xbf16>> -> vector<64x256xbf16>
      %d = tile.dot %a, %b, %zero {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x256xbf16>, vector<64x256xf32>
      tile.store %d, %or[%first, %c0] : vector<64x256xf32>, !tile.rows<vector<256xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x256xf32>
}
