// Rows of f32 in shared memory as TMA writes them: threads take them as fragments, as transposed ones,
// and row by row. Without `wgmma` threads copy them to the same places.
// RUN: ejk-opt %s --ejk-plan-memory=arch=sm_90a | FileCheck %s --check-prefix=PLAN
// RUN: ejk-opt %s --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a | FileCheck %s
// RUN: sed -e 's/tile.warpgroups, //' %s >%t.threads.mlir
// RUN: ejk-opt %t.threads.mlir --ejk-plan-memory=arch=sm_90a | FileCheck %s --check-prefix=THREADS
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check
// RUN: %{run} --random B=2,T=335,H=2 %s
// RUN: %{run} --random B=1,T=64,H=1 %s
// RUN: %{run} --random B=2,T=1,H=3 %s
// RUN: %{run} --random B=2,T=335,H=2 %t.threads.mlir

// PLAN: tile.make_ring tma at 0 mbarriers 131072 : <2 of vector<64x128xf32>, vector<64x128xf32>>
// THREADS: tile.make_ring at 0 : <2 of vector<64x128xf32>, vector<64x128xf32>>

// Blocks of 32 columns, of which rows of 112 have no whole number.
// CHECK-LABEL: gpu.func @f_blocks0(
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-LABEL: func.func @f(
// CHECK: nvgpu.tma.create.descriptor {{.*}} -> <tensor = memref<1x4x64x32xf32, 3>
// CHECK: nvgpu.tma.create.descriptor {{.*}} -> <tensor = memref<1x1x64x32xf32, 3>
#rows = #tile.layout<swizzled_words>
#fragments = #tile.layout<fragments over 4 by 1>
#transposed = #tile.layout<transposed_fragments over 4 by 1>
func.func @f(%x: tensor<?x?x?x128xf32>, %y: tensor<?x?x?x112xf32>)
    -> (tensor<?x?x?x128xf32>, tensor<?x?x?x112xf32>, tensor<?x?x?x128xf32>) {
  %o:3 = tile.program chunk 64 slices 1 sequences(%x, %y : tensor<?x?x?x128xf32>, tensor<?x?x?x112xf32>)
      outputs(tensor<?x?x?x128xf32>, tensor<?x?x?x112xf32>, tensor<?x?x?x128xf32>)
      attributes {tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%xr: !tile.rows<vector<128xf32>>, %yr: !tile.rows<vector<112xf32>>, %or: !tile.rows<vector<128xf32>>,
       %pr: !tile.rows<vector<112xf32>>, %sr: !tile.rows<vector<128xf32>>, %length: index, %slice: index,
       %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    %ring = tile.make_ring : <2 of vector<64x128xf32>, vector<64x128xf32>>
    tile.acquire %ring[%c0] : <2 of vector<64x128xf32>, vector<64x128xf32>>
    tile.fill %ring[%c0] from(%xr, %yr) at(%c0, %c0) channels(%c0, %c0) : <2 of vector<64x128xf32>, vector<64x128xf32>>, !tile.rows<vector<128xf32>>, !tile.rows<vector<112xf32>>
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c64 : index
      %xt, %yt = tile.take %ring[%c] {tile.layouts = [#rows, #rows]} : <2 of vector<64x128xf32>, vector<64x128xf32>> -> vector<64x128xf32>, vector<64x128xf32>
      %next = arith.addi %c, %c1 : index
      %nextFirst = arith.muli %next, %c64 : index
      tile.acquire %ring[%next] : <2 of vector<64x128xf32>, vector<64x128xf32>>
      tile.fill %ring[%next] from(%xr, %yr) at(%nextFirst, %nextFirst) channels(%c0, %c0) : <2 of vector<64x128xf32>, vector<64x128xf32>>, !tile.rows<vector<128xf32>>, !tile.rows<vector<112xf32>>
      %xf = tile.convert %xt to #fragments : vector<64x128xf32>
      tile.store %xf, %or[%first, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
      %yf = tile.convert %yt to #transposed : vector<64x128xf32>
      tile.store %yf, %pr[%first, %c0] : vector<64x128xf32>, !tile.rows<vector<112xf32>>
      %row = vector.extract %xt[5] {tile.layouts = [#tile.layout<lanes>]} : vector<128xf32> from vector<64x128xf32>
      %spread = tile.broadcast %row along 1 {tile.layouts = [#fragments]} : vector<128xf32> -> vector<64x128xf32>
      tile.store %spread, %sr[%first, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
      tile.release %ring[%c] : <2 of vector<64x128xf32>, vector<64x128xf32>>
    }
    tile.end
  }
  return %o#0, %o#1, %o#2 : tensor<?x?x?x128xf32>, tensor<?x?x?x112xf32>, tensor<?x?x?x128xf32>
}
