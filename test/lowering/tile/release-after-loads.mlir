// Outstanding loads of a stage complete before its next TMA tile may arrive: a stage is released after
// the sums of what was read, or after a fence where no use shows that the loads are complete.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=2,T=335,H=2 %s

// CHECK-LABEL: gpu.func @f_blocks0(
// CHECK: scf.for
// CHECK: nvvm.ldmatrix
// CHECK-NOT: mbarrier.arrive
// CHECK: fence.proxy.async
// CHECK-NOT: mbarrier.arrive
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.mbarrier.arrive
#fragments = #tile.layout<fragments over 4 by 1>
#panels = #tile.layout<swizzled>
func.func @f(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    %ring = tile.make_ring : <2 of vector<64x64xbf16>>
    tile.acquire %ring[%c0] : <2 of vector<64x64xbf16>>
    tile.fill %ring[%c0] from(%kr) at(%c0) channels(%c0) : <2 of vector<64x64xbf16>>, !tile.rows<vector<64xbf16>>
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %kt = tile.take %ring[%c] {tile.layouts = [#panels]} : <2 of vector<64x64xbf16>> -> vector<64x64xbf16>
      %next = arith.addi %c, %c1 : index
      %ahead = arith.muli %next, %c64 : index
      tile.acquire %ring[%next] : <2 of vector<64x64xbf16>>
      tile.fill %ring[%next] from(%kr) at(%ahead) channels(%c0) : <2 of vector<64x64xbf16>>, !tile.rows<vector<64xbf16>>
      %kf = tile.convert %kt to <fragments over 4 by 1> : vector<64x64xbf16>
      tile.release %ring[%c] : <2 of vector<64x64xbf16>>
      tile.store %kf, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}
