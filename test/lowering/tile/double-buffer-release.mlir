// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a --canonicalize --cse | FileCheck %s

// A loop carries a matmul operand in a double buffer, and nothing uses its result. After the loop both
// buffers are free: the seven tiles of 32 KiB that are live then fit beside nothing else into the 227 KiB
// of a block. Were a buffer kept, the loop would have to do without a double buffer.
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: arith.andi %[[I]], %c1_i32
// CHECK: dynamic_shared_memory_size %c229376_i32
#fragments = #tile.layout<fragments over 4 by 1>
#swizzled = #tile.layout<swizzled>
func.func @f(%k: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x256xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<256xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %square = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %k0 = tile.load %kr[%c0, %c0] {tile.layouts = [#fragments]} : !tile.rows<vector<256xbf16>> -> vector<64x256xbf16>
    %f0 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%x = %f0) -> (vector<64x256xbf16>) {
      %first = arith.muli %i, %c64 : index
      %following = arith.addi %first, %c64 : index
      %next = tile.load %kr[%following, %c0] {tile.layouts = [#fragments]} : !tile.rows<vector<256xbf16>> -> vector<64x256xbf16>
      %d = tile.dot %x, %x transposed, %square {tile.layouts = [#fragments]} : vector<64x256xbf16>, vector<64x256xbf16>, vector<64x64xf32>
      %y = tile.convert %next to <swizzled> : vector<64x256xbf16>
      tile.store %d, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      scf.yield %y : vector<64x256xbf16>
    } {tile.layouts = [#swizzled]}
    %f1 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f2 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f3 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f4 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f5 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f6 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %f7 = tile.convert %k0 to <swizzled> : vector<64x256xbf16>
    %d1 = tile.dot %f1, %f2 transposed, %square {tile.layouts = [#fragments]} : vector<64x256xbf16>, vector<64x256xbf16>, vector<64x64xf32>
    tile.store %d1, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    %d2 = tile.dot %f3, %f4 transposed, %square {tile.layouts = [#fragments]} : vector<64x256xbf16>, vector<64x256xbf16>, vector<64x64xf32>
    tile.store %d2, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    %d3 = tile.dot %f5, %f6 transposed, %square {tile.layouts = [#fragments]} : vector<64x256xbf16>, vector<64x256xbf16>, vector<64x64xf32>
    tile.store %d3, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    %d4 = tile.dot %f7, %f1 transposed, %square {tile.layouts = [#fragments]} : vector<64x256xbf16>, vector<64x256xbf16>, vector<64x64xf32>
    tile.store %d4, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
