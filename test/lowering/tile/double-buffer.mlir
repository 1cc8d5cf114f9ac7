// A factor that a loop carries lies in two places by turns: between writing the next one's and the
// products that read it an iteration later stands one barrier, which knows it by its other name.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a --canonicalize --cse | FileCheck %s
// RUN: not ejk-opt %s --ejk-describe-interface --ejk-plan-memory --ejk-lower-to-gpu 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: error: is laid out for matmuls of four warps (wgmma), which sm_90 lacks; sm_90a has them
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random
// RUN: %{run} B=2,T=335,H=2 %s
// RUN: %{run} B=2,T=64,H=2 %s
// RUN: %{run} B=0,T=70,H=2 %s
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: %[[ODD:.*]] = arith.andi %[[I]], %c1_i32
// CHECK: arith.xori %[[ODD]], %c1_i32
// CHECK-NOT: wgmma
// CHECK: fence.proxy.async
// CHECK-NEXT: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: wgmma.mma_async
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return
#fragments = #tile.layout<fragments over 4 by 1>
#panels = #tile.layout<swizzled>
func.func @f(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %square = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c64 : index
    %k0 = tile.load %kr[%c0, %c0] {tile.layouts = [#fragments]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %n0 = arith.negf %k0 {tile.layouts = [#fragments]} : vector<64x64xbf16>
    %f0 = tile.convert %n0 to <swizzled> : vector<64x64xbf16>
    // This product's barrier is the loop's first one's, too, which stores in its place.
    %g0 = tile.convert %k0 to <swizzled> : vector<64x64xbf16>
    %d0 = tile.dot %g0, %g0 transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    tile.store %d0, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%x = %f0) -> (vector<64x64xbf16>) {
      %first = arith.muli %i, %c64 : index
      %behind = arith.addi %first, %c64 : index
      %next = tile.load %kr[%behind, %c0] {tile.layouts = [#fragments]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %negated = arith.negf %next {tile.layouts = [#fragments]} : vector<64x64xbf16>
      %d = tile.dot %x, %x transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %y = tile.convert %negated to <swizzled> : vector<64x64xbf16>
      tile.store %d, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
      scf.yield %y : vector<64x64xbf16>
    } {tile.layouts = [#panels]}
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
